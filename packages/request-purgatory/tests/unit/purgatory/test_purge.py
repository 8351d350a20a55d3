"""When a purge is due, by the new design's rule. The 0.8 design's is in test_legacy.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
)
from request_purgatory._native import primitives
from tests.conftest import MakePurgatory
from tests.support.interleaving import interpreted_only
from tests.support.pending import watch
from tests.support.requests import Request


def test_purge_is_due_once_more_have_ended_than_the_interval(
    make_wheel_purgatory: MakePurgatory,
) -> None:
    purgatory = make_wheel_purgatory(purge_interval=3)
    requests = [watch(purgatory, number, "shared") for number in range(6)]
    for request in requests[:3]:
        request.force_complete()
    purgatory.advance_clock(0)
    assert (
        purgatory.metrics().purges,
        purgatory.metrics().estimated_operations,
        purgatory.watched,
    ) == (0, 6, 12)
    requests[3].force_complete()
    purgatory.advance_clock(0)
    assert (
        purgatory.metrics().purges,
        purgatory.metrics().estimated_operations,
        purgatory.watched,
    ) == (1, 2, 4)
    assert purgatory.metrics().purged_entries == 8
    assert purgatory.operations() == requests[4:]


def test_request_counts_once_in_the_estimate_however_many_its_keys(
    make_wheel_purgatory: MakePurgatory,
) -> None:
    purgatory = make_wheel_purgatory(purge_interval=1)
    watch(purgatory, *range(50)).force_complete()
    assert purgatory.metrics().estimated_operations == 1
    purgatory.advance_clock(0)
    assert purgatory.metrics().purges == 0


def test_purge_that_is_due_is_said_to_be(purgatory: DelayedOperationPurgatory) -> None:
    purgatory.purge_interval = 2
    said = []
    for _ in range(3):
        watch(purgatory, "a").force_complete()
        said.append(purgatory._is_purge_due)
    assert said == [False, False, True]
    purgatory.advance_clock(0)
    assert (purgatory._is_purge_due, purgatory.metrics().purges) == (False, 1)


def test_purge_interval_of_zero_purges_at_the_next_chance(
    make_wheel_purgatory: MakePurgatory,
) -> None:
    purgatory = make_wheel_purgatory(purge_interval=0)
    watch(purgatory, "a").force_complete()
    purgatory.advance_clock(0)
    assert (purgatory.metrics().purges, purgatory.watched) == (1, 0)
    purgatory.advance_clock(0)
    assert purgatory.metrics().purges == 1


def test_what_checks_have_met_is_not_kept_for_a_purge_that_never_comes(
    make_wheel_purgatory: MakePurgatory,
) -> None:
    purgatory = make_wheel_purgatory(purge_interval=10**9)
    for number in range(5_000):
        request = Request(60_000)
        purgatory.try_complete_else_watch(request, ["a", number])
        request.force_complete()
        purgatory.check_and_complete("a")
        purgatory.check_and_complete(number)
    assert purgatory.watched == 0
    assert purgatory._backlog.chain.length <= 1_001
    kept = [Request(60_000) for _ in range(3_000)]
    for request in kept:
        purgatory.try_complete_else_watch(request, ["a"])
        request.force_complete()
    assert purgatory.purge() == 3_000
    assert (purgatory.watched, purgatory._backlog.chain.length) == (0, 0)


class Finalized(Request):
    """Calls a function when nobody has it any more."""

    def __init__(self, finalize: Callable[[], object]) -> None:
        super().__init__(60_000)
        self.finalize = finalize

    def __del__(self) -> None:
        self.finalize()


def test_finalizers_that_purge_take_part_in_the_purge(make_wheel_purgatory: MakePurgatory) -> None:
    purgatory = make_wheel_purgatory()
    purged: list[int] = []
    for _ in range(4):
        request = Finalized(lambda: purged.append(purgatory.purge()))
        purgatory.try_complete_else_watch(request, ["a", "b"])
        request.force_complete()
    del request
    own = purgatory.purge()
    assert len(purged) == 4
    assert (own + sum(purged), purgatory.watched, purgatory._backlog.chain.length) == (8, 0, 0)
    assert 0 < own < 8
    assert purgatory.metrics().purged_entries == 8


def test_finalizer_that_purges_while_met_operations_are_forgotten_loses_none(
    make_wheel_purgatory: MakePurgatory,
) -> None:
    purgatory = make_wheel_purgatory(purge_interval=10**9)
    purged: list[int] = []
    met = Finalized(lambda: purged.append(purgatory.purge()))
    purgatory.try_complete_else_watch(met, ["b", "c"])
    met.force_complete()
    for key in ("b", "c"):
        purgatory.check_and_complete(key)
    del met
    for _ in range(1_999):
        watch(purgatory, "a").force_complete()
    # One more than is remembered without a look: the met ones are forgotten, the oldest first.
    last = watch(purgatory, "d")
    assert purged == []
    last.force_complete()
    # `met` goes when the next one is looked at, which is kept.
    assert purged == [1_999]
    assert (purgatory.watched, purgatory._backlog.chain.length) == (1, 1)
    assert purgatory.purge() == 1
    assert purgatory.watched == 0


@interpreted_only
def test_large_purge_lets_others_run(
    make_wheel_purgatory: MakePurgatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    purgatory = make_wheel_purgatory(purge_interval=10**9)
    for _ in range(4_100):
        watch(purgatory, "a").force_complete()
    watched: list[int] = []
    monkeypatch.setattr(primitives, "let_others_run", lambda: watched.append(purgatory.watched))
    assert purgatory.purge() == 4_100
    assert watched == [4_100 - 1_999, 4_100 - 3_999]
