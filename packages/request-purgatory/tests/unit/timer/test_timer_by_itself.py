"""A timer with its own clock thread."""

from __future__ import annotations

import threading

import pytest

from request_purgatory import SystemTimer, TimerClosedError
from tests.support.requests import fail
from tests.support.sleeping_threads import SleepRecordingClock

TIME_LIMIT = 20.0


def test_tasks_run_while_the_block_is_open() -> None:
    clock = SleepRecordingClock()
    names: list[str] = []
    ran = threading.Event()

    def run() -> None:
        names.append(threading.current_thread().name)
        ran.set()

    with SystemTimer("own", clock=clock) as timer:
        clock.wait_for_sleep(1)
        timer.call_later_ms(30, run)
        late = timer.call_later_ms(3_600_000, fail)
        clock.advance(30)
        assert ran.wait(TIME_LIMIT)
    assert names == ["own-timer"]
    assert "own-timer" not in [thread.name for thread in threading.enumerate()]
    assert not late.cancel(), "the end of the block cancels pending tasks"
    with pytest.raises(TimerClosedError):
        timer.call_later_ms(1, fail)


def test_start_may_be_repeated_and_shutdown_ends_the_thread() -> None:
    timer = SystemTimer("own")
    timer.start()
    timer.start()
    assert [thread.name for thread in threading.enumerate()].count("own-timer") == 1
    pending = timer.call_later_ms(3_600_000, fail)
    assert timer.shutdown() == [pending]
    assert "own-timer" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(TimerClosedError, match="own"):
        timer.start()


def test_task_shuts_its_own_timer_down() -> None:
    timer = SystemTimer("own")
    timer.start()
    thread = next(thread for thread in threading.enumerate() if thread.name == "own-timer")
    timer.call_later_ms(1, timer.shutdown)
    thread.join(TIME_LIMIT)
    assert not thread.is_alive()
