"""Operations that a timer runs before their deadline, as renewals that race leave them there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from request_purgatory import DelayedOperationPurgatory, ManualClock, SystemTimer, TimerTask
from tests.conftest import MakePurgatory
from tests.support.interleaving import InterleavedClock, interleave_tasks, interpreted_only
from tests.support.requests import Request
from tests.unit.purgatory.test_renewal_races import InterleavedTimer


def test_operation_that_is_run_early_goes_back_until_its_deadline() -> None:
    clock = InterleavedClock()
    timer = InterleavedTimer("test", clock=clock)
    lease = Request(500)

    def renew() -> None:
        clock.advance(50)
        assert purgatory.renew(lease, 1)

    def add_and_wait(add: Callable[[], None]) -> None:
        clock.interrupt = renew  # Once the timer has read the clock for the first renewal.
        add()
        clock.advance(950)
        timer.advance_clock(0)
        assert (lease.outcome, timer.size, clock.now_ms) == (None, 1, 1000)
        clock.advance(50)
        timer.advance_clock(0)
        clock.advance(1)
        timer.advance_clock(0)
        assert lease.outcome == "expired"

    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
        purgatory.try_complete_else_watch(lease, ["a"])
        timer.around = add_and_wait
        assert not purgatory.renew(lease, 1)
        assert timer.size == 0
    timer.shutdown()


@interpreted_only
def test_later_of_two_renewals_in_one_millisecond_decides(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    purgatory = make_wheel_purgatory()
    lease = Request(500)
    purgatory.try_complete_else_watch(lease, ["a"])
    lock = interleave_tasks(purgatory.timer)  # type: ignore[arg-type]
    lock.before(1, lambda: purgatory.renew(lease, 0.1))
    assert purgatory.renew(lease, 1)
    clock.advance(101)
    purgatory.advance_clock(0)
    assert lease.outcome == "expired"


@interpreted_only
def test_renewal_while_an_operation_goes_back_decides(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    purgatory = make_wheel_purgatory()
    lease = Request(500)
    purgatory.try_complete_else_watch(lease, ["a"])
    clock.advance(100)
    lease._remove_from_timer()
    lock = interleave_tasks(purgatory.timer)  # type: ignore[arg-type]
    lock.before(1, lambda: purgatory.renew(lease, 0.1))
    lease.run()
    clock.advance(101)
    purgatory.advance_clock(0)
    assert lease.outcome == "expired"


def test_entry_of_an_earlier_timeout_adds_no_further_one(
    make_legacy_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    purgatory = make_legacy_purgatory()
    lease = Request(100)
    purgatory.try_complete_else_watch(lease, ["a"])
    assert purgatory.renew(lease, 1)
    before = purgatory.timer.size
    lease.run()
    assert (lease.outcome, purgatory.timer.size) == (None, before)
    clock.advance(1000)
    purgatory.advance_clock(0)
    assert lease.outcome == "expired"


@interpreted_only
def test_operation_that_finds_no_memory_to_go_back_is_run_at_the_next_millisecond(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    purgatory = make_wheel_purgatory()
    timer = purgatory.timer
    assert isinstance(timer, SystemTimer)
    lease = Request(500)
    purgatory.try_complete_else_watch(lease, ["a"])
    add_from = SystemTimer._add_from
    starts: list[int] = []

    def add_or_fail(timer: SystemTimer, task: TimerTask, start_ms: int) -> None:
        starts.append(start_ms)
        if len(starts) == 1:
            raise MemoryError
        add_from(timer, task, start_ms)

    clock.advance(100)
    lease._remove_from_timer()
    monkeypatch.setattr(SystemTimer, "_add_from", add_or_fail)
    lease.run()
    assert (lease.outcome, lease._timer_expiration_ms) == (None, 101)
    clock.advance(1)
    purgatory.advance_clock(0)
    assert (lease.outcome, lease._timer_expiration_ms) == (None, 501)
    clock.advance(399)
    purgatory.advance_clock(0)
    clock.advance(1)
    purgatory.advance_clock(0)
    assert lease.outcome == "expired"
