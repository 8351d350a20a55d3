"""How late time-outs come, what makes them late, and who is told."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from request_purgatory import (
    Clock,
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    SystemTimer,
    TimerTask,
)
from request_purgatory._native.parker import Parker
from tests.support.requests import Fault, Request, fail

TIME_LIMIT = 20.0


class SteppedClock(Clock):
    """A clock that a test moves, and that counts as one that runs by itself."""

    def __init__(self) -> None:
        self.reads_ms = 0
        self.readings = 0
        self.interrupted_at = 0

    @property
    def now_ns(self) -> int:
        self.readings += 1
        if self.readings == self.interrupted_at:
            raise KeyboardInterrupt
        return self.reads_ms * 1_000_000

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        pytest.fail(f"nobody sleeps until {until_ms} in these tests")


@pytest.fixture
def stepped() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def measured(stepped: SteppedClock) -> Iterator[DelayedOperationPurgatory]:
    """Return a purgatory on the stepped clock, without a reaper."""
    timer = SystemTimer("test", clock=stepped)
    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
        yield purgatory


def test_expiration_right_after_another_reads_the_clock_once(
    measured: DelayedOperationPurgatory, stepped: SteppedClock
) -> None:
    for _ in range(10):
        measured.try_complete_else_watch(Request(10), ["a"])
    stepped.reads_ms = 10
    stepped.readings = 0
    measured.advance_clock(0)
    # What is due, the beginning of the first one, and the end of each.
    assert (measured.metrics().expirations, stepped.readings) == (10, 1 + 1 + 10)


@pytest.mark.parametrize("kind", ["task", "handle", "operation of no purgatory"])
def test_expiration_is_not_blamed_for_a_task_of_another_owner(
    measured: DelayedOperationPurgatory, stepped: SteppedClock, kind: str
) -> None:
    def take_half_a_second() -> None:
        stepped.reads_ms += 500

    class Slow(TimerTask):
        def run(self) -> None:
            take_half_a_second()

    measured.try_complete_else_watch(Request(10), ["a"])
    if kind == "handle":
        measured.timer.call_later_ms(10, take_half_a_second)
    else:
        measured.timer.add(Slow(10) if kind == "task" else Request(10, complete=take_half_a_second))
    measured.try_complete_else_watch(Request(10), ["a"])
    stepped.reads_ms = 10
    measured.advance_clock(0)
    metrics = measured.metrics()
    assert (metrics.expirations, metrics.max_late_ms, metrics.max_callback_ms) == (2, 500, 0)


@pytest.mark.parametrize("late", [False, True])
def test_expiration_is_not_blamed_for_the_log_of_another(
    measured: DelayedOperationPurgatory, stepped: SteppedClock, late: bool
) -> None:
    class SlowHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            stepped.reads_ms += 5_000

    def take_half_a_second() -> None:
        stepped.reads_ms += 500

    first = Request(10) if late else Request(10, complete=take_half_a_second)
    for request in (first, Request(10)):
        measured.try_complete_else_watch(request, ["a"])
    stepped.reads_ms = 510 if late else 10
    handler = SlowHandler()
    core_logger = logging.getLogger("request_purgatory")
    core_logger.addHandler(handler)
    try:
        measured.advance_clock(0)
    finally:
        core_logger.removeHandler(handler)
    metrics = measured.metrics()
    assert (metrics.expirations, metrics.max_late_ms) == (2, 5_500)
    assert metrics.max_callback_ms == (0 if late else 500)


def test_expiration_in_a_later_call_reads_the_clock_anew(
    measured: DelayedOperationPurgatory, stepped: SteppedClock
) -> None:
    """Also where the call before was interrupted in the middle of its last one."""
    first, second = Request(10), Request(20)
    for request in (first, second):
        measured.try_complete_else_watch(request, ["a"])
    stepped.reads_ms = 10
    stepped.readings = 0
    stepped.interrupted_at = 3  # When the callbacks of the first one have run.
    with pytest.raises(KeyboardInterrupt):
        measured.advance_clock(0)
    assert first.outcome == "expired"
    stepped.reads_ms = 110
    stepped.readings = stepped.interrupted_at = 0
    measured.advance_clock(0)
    assert (second.outcome, stepped.readings) == ("expired", 3)
    assert measured.metrics().max_late_ms == 90


def test_expiration_after_others_had_a_turn_reads_the_clock_anew(
    measured: DelayedOperationPurgatory, stepped: SteppedClock
) -> None:
    for _ in range(100):
        measured.try_complete_else_watch(Request(10), ["a"])
    stepped.reads_ms = 10
    stepped.readings = 0
    measured.advance_clock(0)
    # What is due, the beginnings of the first one and of the one after 64, and the end of each.
    assert (measured.metrics().expirations, stepped.readings) == (100, 1 + 2 + 100)


def test_operation_that_is_renewed_between_two_expirations_is_not_lost(
    measured: DelayedOperationPurgatory, stepped: SteppedClock
) -> None:
    """By the finalizer of the first one, when that has ended and nobody refers to it."""
    renewed = [Request(10), Request(10), Request(10)]

    class Last(Request):
        def __del__(self) -> None:
            stepped.reads_ms += 5
            for request, timeout_s in zip(renewed, (0, 0.001, 0.02), strict=True):
                assert measured.renew(request, timeout_s) is (timeout_s > 0)

    measured.try_complete_else_watch(Last(10, complete=measured.purge), ["a"])
    for request in renewed:
        measured.try_complete_else_watch(request, ["a"])
    stepped.reads_ms = 10
    measured.advance_clock(0)
    assert [request.outcome for request in renewed] == ["expired", None, None]
    stepped.reads_ms = 16
    measured.advance_clock(0)
    assert [request.outcome for request in renewed] == ["expired", "expired", None]
    stepped.reads_ms = 35
    measured.advance_clock(0)
    assert [request.calls for request in renewed] == [["complete", "expiration"]] * 3


def test_slow_callback_is_measured_and_logged_with_its_operation(
    measured: DelayedOperationPurgatory, stepped: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    def take_half_a_second() -> None:
        stepped.reads_ms += 500

    slow = Request(10, complete=take_half_a_second)
    delayed = Request(20)
    for request in (slow, delayed):
        measured.try_complete_else_watch(request, ["a"])
    stepped.reads_ms = 10
    measured.advance_clock(0)
    measured.advance_clock(0)
    metrics = measured.metrics()
    assert (metrics.max_late_ms, metrics.max_callback_ms) == (490, 500)
    assert [record.getMessage() for record in caplog.records] == [
        f"purgatory 'test': the callbacks of {slow!r} took 500 ms; "
        "without an executor, other timeouts wait for them",
        f"purgatory 'test': {delayed!r} expired 490 ms late",
    ]
    assert metrics.by_kafka_name()["MaxExpirationLateMs"] == 490


def test_callbacks_that_raise_are_measured(
    measured: DelayedOperationPurgatory, stepped: SteppedClock
) -> None:
    def fail_slowly() -> None:
        stepped.reads_ms += 70
        raise Fault

    measured.try_complete_else_watch(Request(10, complete=fail_slowly), ["a"])
    stepped.reads_ms = 12
    measured.advance_clock(0)
    metrics = measured.metrics()
    assert (metrics.max_late_ms, metrics.max_callback_ms, metrics.callback_errors) == (2, 70, 1)


def test_late_time_outs_are_logged_once_a_second(
    measured: DelayedOperationPurgatory, stepped: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that was stopped for a minute says so in one line, not in a thousand.

    The threshold is the user's.
    """
    measured.warn_after_ms = 2_000
    for delay_ms in (10, 20, 30):
        measured.try_complete_else_watch(Request(delay_ms), ["a"])
    stepped.reads_ms = 1_500
    measured.advance_clock(0)
    assert caplog.records == []
    assert measured.metrics().max_late_ms == 1_490
    for delay_ms in (1, 2, 3):
        measured.try_complete_else_watch(Request(delay_ms), ["a"])
    stepped.reads_ms = 60_000
    measured.advance_clock(0)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_record_that_a_handler_keeps_does_not_keep_the_operation(
    measured: DelayedOperationPurgatory, stepped: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    request = Request(10)
    before = sys.getrefcount(request)
    measured.try_complete_else_watch(request, ["a"])
    stepped.reads_ms = 5_000
    measured.advance_clock(0)
    measured.purge()
    assert "expired 4990 ms late" in caplog.text
    assert sys.getrefcount(request) == before


def test_manual_clock_that_jumps_makes_nothing_late(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    with DelayedOperationPurgatory(
        "test", timer=SystemTimer("test", clock=clock), reaper=False
    ) as purgatory:
        purgatory.try_complete_else_watch(Request(10), ["a"])
        clock.advance(3_600_000)
        purgatory.advance_clock(0)
        assert (purgatory.metrics().expirations, purgatory.metrics().max_late_ms) == (1, 0)
    assert "late" not in caplog.text


def test_executor_runs_the_callbacks_of_what_times_out() -> None:
    names: list[str] = []
    go_on = threading.Event()

    def block() -> None:
        names.append(threading.current_thread().name)
        assert go_on.wait(TIME_LIMIT)

    with (
        ThreadPoolExecutor(2, thread_name_prefix="callbacks") as pool,
        DelayedOperationPurgatory("test", executor=pool) as purgatory,
    ):
        purgatory.try_complete_else_watch(Request(1, complete=block), ["a"])
        future = purgatory.hold(["b"], until=lambda: False, timeout=0.02)
        assert isinstance(future.exception(TIME_LIMIT), TimeoutError)
        go_on.set()
    assert names[0].startswith("callbacks")


def test_executor_belongs_to_the_timer_that_is_given() -> None:
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(InvalidArgumentError, match="executor must be None where a timer is given"),
    ):
        DelayedOperationPurgatory("test", timer=SystemTimer("test"), executor=pool)


def test_executor_that_was_shut_down_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with DelayedOperationPurgatory("test", executor=pool) as purgatory:
        future = purgatory.hold(["b"], until=lambda: False, timeout=0.001)
        assert isinstance(future.exception(TIME_LIMIT), TimeoutError)
    assert "the executor refused" in caplog.text
    caplog.clear()


def test_operation_alone_on_a_timer_is_contained_there(stepped: SteppedClock) -> None:
    timer = SystemTimer("test", clock=stepped)
    timer.add(Request(10, complete=fail))
    stepped.reads_ms = 10
    timer.advance_clock(0)
    assert timer.callback_errors == 1
