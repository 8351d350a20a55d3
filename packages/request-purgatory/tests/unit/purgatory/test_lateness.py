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
)
from request_purgatory._native.parker import Parker
from tests.support.requests import Fault, Request, fail

TIME_LIMIT = 20.0


class SteppedClock(Clock):
    """A clock that a test moves, and that counts as one that runs by itself."""

    def __init__(self) -> None:
        self.reads_ms = 0

    @property
    def now_ns(self) -> int:
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
