"""Fractions of a millisecond: no timeout is early by one, and no wait is counted longer."""

from __future__ import annotations

import pytest

from request_purgatory import DelayedOperationPurgatory, ManualClock, SystemTimer
from tests.conftest import MakePurgatory
from tests.support.requests import Request


@pytest.fixture
def odd(clock: ManualClock, make_purgatory: MakePurgatory) -> DelayedOperationPurgatory:
    """Return a purgatory whose clock stands at 1.5 ms."""
    purgatory = make_purgatory()
    clock.advance_to_ns(1_500_000)
    return purgatory


def test_timeout_counts_from_the_fraction(
    odd: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    request = Request(10)
    odd.try_complete_else_watch(request, ["a"])
    clock.advance_to_ns(11_400_000)
    odd.advance_clock(0)
    assert request.outcome is None
    clock.advance_to_ns(12_000_000)
    odd.advance_clock(0)
    assert request.outcome == "expired"


def test_wait_within_a_millisecond_is_none(
    odd: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    request = Request(10)
    odd.try_complete_else_watch(request, ["a"])
    clock.advance_to_ns(1_900_000)
    request.force_complete()
    metrics = odd.metrics()
    assert metrics.total_wait_ms == 0
    assert metrics.wait_histogram_ms[0] == 1


def test_wait_within_a_millisecond_of_a_clock_of_the_users_own_is_none() -> None:
    class OwnClock(ManualClock):
        pass

    clock = OwnClock()
    purgatory = DelayedOperationPurgatory(
        "test", timer=SystemTimer("test", clock=clock), reaper=False
    )
    request = Request(10)
    purgatory.try_complete_else_watch(request, ["a"])
    clock.advance_to_ns(400_000)
    request.force_complete()
    assert purgatory.metrics().total_wait_ms == 0


def test_snapshot_within_a_millisecond_shows_no_wait(
    odd: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    odd.try_complete_else_watch(Request(10), ["a"])
    clock.advance_to_ns(1_900_000)
    assert [each.waited_ms for each in odd.snapshot().longest] == [0]


def test_wait_counts_from_the_last_renewal(
    odd: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    request = Request(10)
    odd.try_complete_else_watch(request, ["a"])
    clock.advance_to_ns(5_300_000)
    assert odd.renew(request, 0.010) is True
    clock.advance_to_ns(5_400_000)
    request.force_complete()
    assert odd.metrics().total_wait_ms == 0


def test_timer_that_comes_early_by_a_fraction_ends_nothing(
    odd: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    request = Request(10)
    odd.try_complete_else_watch(request, ["a"])
    clock.advance_to_ns(10_900_000)
    request.run()
    assert request.outcome is None
    clock.advance_to_ns(11_000_000)
    request.run()
    assert request.outcome == "expired"


def test_renewed_timeout_counts_from_the_fraction(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    purgatory = make_wheel_purgatory()
    request = Request(10)
    purgatory.try_complete_else_watch(request, ["a"])
    clock.advance_to_ns(5_300_000)
    assert purgatory.renew(request, 0.010) is True
    clock.advance_to_ns(15_200_000)
    purgatory.advance_clock(0)
    assert request.outcome is None
    clock.advance_to_ns(16_000_000)
    purgatory.advance_clock(0)
    assert request.outcome == "expired"
