"""The helpers for the peers."""

from __future__ import annotations

import threading

from benchmarks import peers


def test_started_timers_are_cancelled_after_the_block():
    before = threading.Timer(60, peers.no_op)
    before.start()
    try:
        with peers.cancel_started_timers():
            timer = threading.Timer(60, peers.no_op)
            timer.start()
            assert timer.is_alive()
        assert not timer.is_alive()
        assert before.is_alive()
    finally:
        before.cancel()
        before.join(60)
