"""Renewals that race with one another and with the timer: no timeout is lost, early or late."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from request_purgatory import DelayedOperationPurgatory, ManualClock, SystemTimer, TimerTask
from tests.conftest import MakePurgatory
from tests.support.interleaving import InterleavedClock, InterleavedLock, interpreted_only
from tests.support.invariants import check_invariants
from tests.support.requests import Request

#: Two renewals in seconds: the second one, which comes 50 ms later, decides.
RENEWALS = pytest.mark.parametrize(("first", "second"), [(0.1, 1.0), (1.0, 0.1), (0.1, 0.1)])


class InterleavedTimer(SystemTimer):
    """A timer that hands its next `add` to a function of the test, once."""

    around: Callable[[Callable[[], None]], object] | None = None

    def add(self, task: TimerTask) -> None:
        around, self.around = self.around, None
        if around is None:
            super().add(task)
        else:
            around(lambda: SystemTimer.add(self, task))


@pytest.fixture
def interleaved() -> Iterator[tuple[DelayedOperationPurgatory, InterleavedTimer, InterleavedClock]]:
    clock = InterleavedClock()
    timer = InterleavedTimer("test", clock=clock)
    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
        yield purgatory, timer, clock
    timer.shutdown()


def expires_at(purgatory: DelayedOperationPurgatory, clock: ManualClock, lease: Request) -> int:
    """Return the time at which `lease` expires, with the clock moved on by 1 ms at a time."""
    while lease.outcome is None:
        check_invariants(purgatory)
        assert clock.now_ms < 10_000, "the timeout was lost"
        clock.advance(1)
        purgatory.advance_clock(0)
    assert lease.outcome == "expired"
    return clock.now_ms


@RENEWALS
def test_later_of_two_renewals_that_race_decides(
    interleaved: tuple[DelayedOperationPurgatory, InterleavedTimer, InterleavedClock],
    first: float,
    second: float,
) -> None:
    purgatory, timer, clock = interleaved
    lease = Request(500)
    purgatory.try_complete_else_watch(lease, ["a"])

    def renew() -> None:
        clock.advance(50)
        assert purgatory.renew(lease, second)

    def add_late(add: Callable[[], None]) -> None:
        clock.interrupt = renew  # Once the timer has read the clock for the first renewal.
        add()

    timer.around = add_late
    assert purgatory.renew(lease, first)
    due_ms = 50 + round(second * 1000)
    assert 0 <= lease._timer_expiration_ms - due_ms <= 1
    assert 0 <= expires_at(purgatory, clock, lease) - due_ms <= 1


@interpreted_only
@RENEWALS
def test_later_renewal_decides_though_the_earlier_one_has_the_lock_last(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock, first: float, second: float
) -> None:
    purgatory = make_wheel_purgatory()
    lease = Request(500)
    purgatory.try_complete_else_watch(lease, ["a"])
    lock = InterleavedLock()
    purgatory.timer._lock = purgatory.timer._pending.lock = lock  # type: ignore[attr-defined]

    def renew() -> None:
        clock.advance(50)
        assert purgatory.renew(lease, second)

    lock.before(1, renew)
    assert purgatory.renew(lease, first)
    assert 0 <= expires_at(purgatory, clock, lease) - (50 + round(second * 1000)) <= 1


@interpreted_only
def test_entry_of_a_renewal_that_finds_no_memory_is_made_by_the_one_that_it_races_with(
    make_legacy_purgatory: MakePurgatory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    purgatory = make_legacy_purgatory()
    lease = Request(500)
    purgatory.try_complete_else_watch(lease, ["a"])

    def fail_to_allocate(task: TimerTask) -> None:
        raise MemoryError

    def renew() -> None:
        clock.advance(50)
        with monkeypatch.context() as patch:
            patch.setattr(purgatory.timer, "add", fail_to_allocate)
            with pytest.raises(MemoryError):
                purgatory.renew(lease, 1)

    lock = InterleavedLock()
    purgatory.timer._lock = lock  # type: ignore[attr-defined]
    lock.before(1, renew)  # Once the timer has read the delay of the first renewal.
    assert purgatory.renew(lease, 0.1)
    for _ in range(10):
        assert lease.outcome is None
        clock.advance(100)
        purgatory.advance_clock(0)
    assert lease.outcome == "expired"


def test_operation_that_the_timer_runs_too_early_goes_back(
    interleaved: tuple[DelayedOperationPurgatory, InterleavedTimer, InterleavedClock],
) -> None:
    purgatory, timer, clock = interleaved
    lease = Request(500)
    purgatory.try_complete_else_watch(lease, ["a"])

    def renew() -> None:
        clock.advance(50)
        assert purgatory.renew(lease, 1)

    def add_late_and_run(add: Callable[[], None]) -> None:
        clock.interrupt = renew
        add()
        # Due at 100 by the first renewal, at 1050 by the second one.
        clock.advance(50)
        timer.advance_clock(0)
        assert (lease.outcome, timer.size) == (None, 1)

    timer.around = add_late_and_run
    assert purgatory.renew(lease, 0.1)
    assert 0 <= expires_at(purgatory, clock, lease) - 1050 <= 1


def test_operation_that_goes_back_is_left_to_a_shutdown_that_comes_between(
    interleaved: tuple[DelayedOperationPurgatory, InterleavedTimer, InterleavedClock],
) -> None:
    purgatory, timer, clock = interleaved
    lease = Request(500)
    purgatory.try_complete_else_watch(lease, ["a"])

    def renew() -> None:
        clock.advance(50)
        assert purgatory.renew(lease, 1)

    def add_late_and_shut_down(add: Callable[[], None]) -> None:
        clock.interrupt = renew
        add()
        timer.shutdown()
        lease.run()  # As an executor that was handed the expiration before.

    timer.around = add_late_and_shut_down
    assert not purgatory.renew(lease, 0.1)
    assert purgatory.metrics().callback_errors == 0
    assert [lease] == purgatory.close()
