"""The places where threads sleep on a timer, and who is woken by whom."""

from __future__ import annotations

import pytest

import request_purgatory
from request_purgatory import SystemTimer
from request_purgatory._native import primitives
from request_purgatory._native.parker import Parker
from request_purgatory.timer._sleeping_threads import SleepingThread, SleepingThreads
from tests.support.sleeping_threads import has_token
from tests.unit.timer.scripted_clock import ScriptedClock

interpreted_only = pytest.mark.skipif(
    request_purgatory.__compiled__, reason="compiled, the methods are C functions"
)


def places(sleepers: SleepingThreads, *until_ms: int) -> list[SleepingThread]:
    """Have threads sleep, the first of them at the end of the chain."""
    found = []
    for each_ms in until_ms:
        sleeper = SleepingThread()
        sleepers.add(sleeper)
        sleepers.sleep_until(sleeper, each_ms)
        found.append(sleeper)
    return found


@interpreted_only
def test_place_is_taken_by_one_thread_at_a_time() -> None:
    sleepers = SleepingThreads()
    assert sleepers.take_free() is None
    first, second = places(sleepers, 10, 20)
    assert sleepers.take_free() is None
    sleepers.release(first)
    assert sleepers.take_free() is first
    assert first.in_use
    assert sleepers.take_free() is None
    sleepers.release(second)
    assert sleepers.take_free() is second


@interpreted_only
@pytest.mark.parametrize("until_ms", [(5, 9, 30), (30, 9, 5), (9, 5, 30), (5, 0, 9), (0, 9, 5)])
def test_earliest_of_all_who_sleep_is_known(until_ms: tuple[int, ...]) -> None:
    sleepers = SleepingThreads()
    assert sleepers.earliest_ms == -1
    left = dict(zip(places(sleepers, *until_ms), until_ms, strict=True))
    for sleeper in list(left):
        assert sleepers.earliest_ms == min(left.values())
        del left[sleeper]
        assert sleepers.release(sleeper) is bool(left)
    assert sleepers.earliest_ms == -1


@interpreted_only
def test_thread_that_has_a_place_and_does_not_sleep_yet_counts_for_nothing() -> None:
    sleepers = SleepingThreads()
    awake = SleepingThread()
    sleepers.add(awake)
    (asleep,) = places(sleepers, 50)
    assert sleepers.earliest_ms == 50
    sleepers.wake_all()
    assert (has_token(awake), has_token(asleep)) == (False, True)
    assert sleepers.release(asleep) is False
    assert sleepers.earliest_ms == -1


@interpreted_only
def test_all_who_sleep_are_woken_whatever_they_wait_for() -> None:
    sleepers = SleepingThreads()
    asleep = places(sleepers, 0, 7, primitives.LIMIT)
    gone = places(sleepers, 3)[0]
    sleepers.release(gone)
    sleepers.wake_all()
    assert [has_token(sleeper) for sleeper in asleep] == [True] * 3
    assert not has_token(gone)
    assert sleepers.earliest_ms == 0


def test_thread_that_leaves_wakes_those_who_relied_on_it() -> None:
    def first(parker: Parker) -> None:
        assert timer.advance_clock(None) is True
        assert has_token(parker)

    def second(parker: Parker) -> None:
        clock.advance(60)
        assert not has_token(parker)

    clock = ScriptedClock(first, second)
    timer = SystemTimer("test", clock=clock)
    timer.call_later_ms(60, lambda: None)
    timer.call_later_ms(90, lambda: None)
    assert timer.advance_clock(1) is False
    assert clock.sleeps == [1, 60]


def test_threads_that_sleep_one_after_another_need_one_place() -> None:
    def sleep(parker: Parker) -> None:
        seen.append(parker)
        clock.advance(10)

    seen: list[Parker] = []
    clock = ScriptedClock(sleep, sleep, sleep)
    timer = SystemTimer("test", clock=clock)
    for _ in range(3):
        assert timer.advance_clock(1) is False
    assert len(seen) == 3
    assert len({id(parker) for parker in seen}) == 1


def test_place_of_a_thread_that_sleeps_is_no_other_thread_s() -> None:
    def first(parker: Parker) -> None:
        seen.append(parker)
        timer.advance_clock(1)

    def second(parker: Parker) -> None:
        seen.append(parker)
        clock.advance(10)

    seen: list[Parker] = []
    clock = ScriptedClock(first, second)
    timer = SystemTimer("test", clock=clock)
    timer.advance_clock(1)
    assert len({id(parker) for parker in seen}) == 2
