"""Clocks: the machine's and the manual one."""

from __future__ import annotations

import time

import pytest

from request_purgatory import (
    Clock,
    InvalidArgumentError,
    ManualClock,
    SystemTimer,
)
from request_purgatory._native.parker import Parker
from request_purgatory.clock import MAX_NOW_MS, NS_PER_MS, MonotonicClock
from tests.support.sleeping_threads import SleepRecordingClock, has_token
from tests.support.thread_group import ThreadGroup
from tests.support.whole_numbers import Index


def test_manual_clock_stands_still() -> None:
    clock = ManualClock(100)
    assert (clock.now_ms, clock.ceil_ms, clock.now_ns) == (100, 100, 100_000_000)
    clock.advance(0)
    assert clock.now_ms == 100
    clock.advance(50)
    assert clock.now_ms == 150


def test_clocks_have_a_repr() -> None:
    clock = ManualClock(7)
    clock.advance(3)
    assert repr(clock) == "<ManualClock now_ms=10>"
    assert repr(MonotonicClock()) == "<MonotonicClock>"


@pytest.mark.parametrize(
    ("now_ns", "now_ms", "ceil_ms"),
    [
        (0, 0, 0),
        (1, 0, 1),
        (999_999, 0, 1),
        (1_000_000, 1, 1),
        (1_000_001, 1, 2),
        (10**18 - 1, 10**12 - 1, 10**12),
    ],
)
def test_milliseconds_are_rounded_down_and_up(now_ns: int, now_ms: int, ceil_ms: int) -> None:
    clock = ManualClock()
    clock.advance_to_ns(now_ns)
    assert (clock.now_ms, clock.ceil_ms) == (now_ms, ceil_ms)


def test_manual_clock_never_goes_back() -> None:
    clock = ManualClock(5)
    clock.advance_to_ns(5_000_000)
    with pytest.raises(
        InvalidArgumentError,
        match="now_ns must be at least 5000000, the current time, got 4999999",
    ):
        clock.advance_to_ns(4_999_999)
    with pytest.raises(InvalidArgumentError, match="ms must be at least 0, got -1"):
        clock.advance(-1)
    with pytest.raises(
        InvalidArgumentError,
        match=r"now_ms must be at least 0 and at most 9223372036854 .292 years., got -1",
    ):
        ManualClock(-1)
    assert clock.now_ns == 5_000_000


def test_manual_clock_ends_after_292_years() -> None:
    clock = ManualClock(MAX_NOW_MS - 1)
    with pytest.raises(InvalidArgumentError, match=r"such that the clock does not pass .* got 2"):
        clock.advance(2)
    with pytest.raises(InvalidArgumentError, match=r"now_ns must be at most .* .292 years., got"):
        clock.advance_to_ns(MAX_NOW_MS * NS_PER_MS + 1)
    assert clock.now_ms == MAX_NOW_MS - 1
    clock.advance(1)
    clock.advance_to_ns(MAX_NOW_MS * NS_PER_MS)
    assert clock.now_ms == MAX_NOW_MS


@pytest.mark.parametrize("ms", [0.5, 2.0, "1", None, True])
def test_manual_clock_takes_whole_numbers_only(ms: object) -> None:
    clock = ManualClock()
    with pytest.raises(InvalidArgumentError, match="ms must be"):
        clock.advance(ms)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="now_ms must be"):
        ManualClock(ms)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="now_ns must be"):
        clock.advance_to_ns(ms)  # type: ignore[arg-type]
    assert clock.now_ns == 0


def test_manual_clock_takes_any_whole_number_type() -> None:
    clock = ManualClock(Index(7))  # type: ignore[arg-type]
    clock.advance(Index(7))  # type: ignore[arg-type]
    assert (clock.now_ms, type(clock.now_ns)) == (14, int)
    ahead = ManualClock()
    ahead.advance_to_ns(Index(7))  # type: ignore[arg-type]
    assert (ahead.now_ns, type(ahead.now_ns)) == (7, int)


def test_threads_that_move_one_clock_lose_no_move(
    thread_group: ThreadGroup, switching: None
) -> None:
    clock = ManualClock()

    def move() -> None:
        for _ in range(500):
            clock.advance(1)

    for _ in range(4):
        thread_group.start(move)
    thread_group.join()
    assert clock.now_ms == 2_000


@pytest.mark.parametrize("move", ["advance", "advance_to_ns", "_set_now_ns"])
def test_move_wakes_every_sleeper(thread_group: ThreadGroup, move: str) -> None:
    clock = SleepRecordingClock()

    def sleep(until_ms: int | None) -> None:
        clock.wait_until(Parker(), until_ms)

    for until_ms in (5, 6, None):
        thread_group.start(sleep, until_ms)
    clock.wait_for_sleep(3)
    getattr(clock, move)(1)
    thread_group.join()


@pytest.mark.parametrize("move", ["advance_to_ns", "_set_now_ns"])
def test_clock_without_sleeping_threads_moves_too(move: str) -> None:
    clock = ManualClock()
    getattr(clock, move)(1_500_001)
    assert (clock.now_ns, clock.now_ms, clock.ceil_ms) == (1_500_001, 1, 2)


def test_manual_clock_does_not_sleep_towards_the_past(thread_group: ThreadGroup) -> None:
    clock = ManualClock(5)
    clock.wait_until(Parker(), 5)
    clock.wait_until(Parker(), 4)


def test_monotonic_clock_is_the_machines() -> None:
    clock = MonotonicClock()
    before = time.monotonic_ns()
    now_ns, now_ms, ceil_ms = clock.now_ns, clock.now_ms, clock.ceil_ms
    after = time.monotonic_ns()
    assert before <= now_ns <= after
    assert before // 1_000_000 <= now_ms <= after // 1_000_000
    assert -(-before // 1_000_000) <= ceil_ms <= -(-after // 1_000_000)


def test_monotonic_clock_does_not_sleep_towards_the_past() -> None:
    MonotonicClock().wait_until(Parker(), 0)


@pytest.mark.parametrize("until_ms", [None, 10_000 * 31_557_600_000])
def test_monotonic_clock_sleeps_until_unparked(
    thread_group: ThreadGroup, until_ms: int | None
) -> None:
    parker = Parker()
    thread_group.start(MonotonicClock().wait_until, parker, until_ms)
    parker.unpark()
    thread_group.join()
    assert not has_token(parker)


def test_user_defined_clock_needs_only_now_ns() -> None:
    class Fixed(Clock):
        @property
        def now_ns(self) -> int:
            return 1_500_000

    assert (Fixed().now_ms, Fixed().ceil_ms) == (1, 2)
    with pytest.raises(NotImplementedError):
        _ = Clock().now_ns
    with pytest.raises(NotImplementedError):
        Clock().wait_until(Parker(), None)


@pytest.mark.parametrize("now_ns", [-1, MAX_NOW_MS * NS_PER_MS + 1, 10**30])
def test_timer_refuses_a_clock_that_it_can_not_count_from(now_ns: int) -> None:
    class Fixed(Clock):
        @property
        def now_ns(self) -> int:
            return now_ns

    with pytest.raises(
        InvalidArgumentError, match=f"clock must be one that reads .* got '{now_ns} ns'"
    ):
        SystemTimer("test", clock=Fixed())
