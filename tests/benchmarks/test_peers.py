"""The parts of the peers that are ours."""

from __future__ import annotations

import threading

from benchmarks import peers


def test_timers_with_threads_are_ended_after_a_block():
    """Those that were started in it, and no others."""
    before = threading.Timer(60, peers.nothing)
    before.start()
    try:
        with peers.ended_timers():
            timer = threading.Timer(60, peers.nothing)
            timer.start()
            assert timer.is_alive()
        assert not timer.is_alive()
        assert before.is_alive()
    finally:
        before.cancel()
        before.join(60)
