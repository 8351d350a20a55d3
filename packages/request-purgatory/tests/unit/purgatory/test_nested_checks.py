"""Chains: callbacks that check the keys of operations whose callbacks check further keys."""

from __future__ import annotations

import sys

import pytest

from request_purgatory import DelayedOperation, DelayedOperationPurgatory, NotificationLoopError
from request_purgatory.purgatory import nested_checks
from tests.support.requests import Request

LENGTH = 60_000


class Link(DelayedOperation):
    """Completes when it is tried, and checks the next one's key."""

    __slots__ = ("number", "purgatory", "ready")

    def __init__(self, purgatory: DelayedOperationPurgatory, number: int) -> None:
        super().__init__(60_000)
        self.purgatory = purgatory
        self.number = number
        self.ready = False

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.purgatory.check_and_complete(self.number + 1)


def make_chain(purgatory: DelayedOperationPurgatory, length: int) -> list[Link]:
    links = [Link(purgatory, number) for number in range(length)]
    for link in links:
        purgatory.try_complete_else_watch(link, [link.number])
        link.ready = True
    return links


def test_chain_of_60_000_completions(purgatory: DelayedOperationPurgatory) -> None:
    links = make_chain(purgatory, LENGTH)
    assert purgatory.check_and_complete(0) == 1
    assert all(link.outcome == "completed" for link in links)
    assert purgatory.num_delayed == 0
    assert nested_checks.postponed == {}


def test_chain_is_as_long_with_a_limit_that_the_stack_has_not(
    purgatory: DelayedOperationPurgatory,
) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000_000)
    try:
        make_chain(purgatory, LENGTH)
        purgatory.check_and_complete(0)
    finally:
        sys.setrecursionlimit(limit)
    assert purgatory.metrics().completions == LENGTH


def test_chain_over_two_purgatories(
    make_purgatory_pair: tuple[DelayedOperationPurgatory, DelayedOperationPurgatory],
) -> None:
    one, other = make_purgatory_pair
    links = []
    for number in range(1_000):
        here, there = (one, other) if number % 2 else (other, one)
        link = Link(there, number)
        here.try_complete_else_watch(link, [number])
        link.ready = True
        links.append(link)
    other.check_and_complete(0)
    assert all(link.outcome == "completed" for link in links)


@pytest.fixture
def make_purgatory_pair() -> tuple[DelayedOperationPurgatory, DelayedOperationPurgatory]:
    return DelayedOperationPurgatory("one", reaper=False), DelayedOperationPurgatory(
        "other", reaper=False
    )


@pytest.mark.parametrize("left_before", [False, True], ids=["stays", "leaves early"])
def test_check_too_deep_among_greenlets_is_made_though_the_first_left(
    purgatory: DelayedOperationPurgatory, left_before: bool
) -> None:
    greenlet = pytest.importorskip("greenlet")
    main = greenlet.getcurrent()
    requests = [Request(60_000) for _ in range(21)]
    for number, request in enumerate(requests):
        purgatory.try_complete_else_watch(request, [number])
        request.during["try"] = main.switch
    late = Request(60_000)
    purgatory.try_complete_else_watch(late, ["late"])
    late.ready = True

    inside = [greenlet.greenlet(purgatory.check_and_complete) for _ in requests]
    inside[0].switch(0)
    inside[1].switch(1)
    if left_before:
        inside[0].switch()
    for number in range(2, 21 if left_before else 20):
        inside[number].switch(number)
    assert purgatory.check_and_complete("late") == 0
    assert not late.is_completed
    for each in reversed(inside):
        if each:
            each.switch()
    assert late.outcome == "completed"
    assert nested_checks.postponed == {}
    assert purgatory.num_delayed == len(requests)


def test_exit_out_of_a_link_is_raised_when_the_chain_has_ended(
    purgatory: DelayedOperationPurgatory,
) -> None:
    class Exiting(Link):
        def on_complete(self) -> None:
            super().on_complete()
            raise SystemExit(self.number)

    links = make_chain(purgatory, 100)
    exiting = Exiting(purgatory, 50)
    purgatory.cancel_for_key(50)
    purgatory.try_complete_else_watch(exiting, [50])
    exiting.ready = True
    with pytest.raises(SystemExit):
        purgatory.check_and_complete(0)
    assert [link.outcome for link in links[:50]] == ["completed"] * 50
    assert [link.outcome for link in links[51:]] == ["completed"] * 49
    assert nested_checks.postponed == {}


def test_conditions_that_notify_one_another_without_end(
    purgatory: DelayedOperationPurgatory,
) -> None:
    def notify_next(number: int) -> None:
        purgatory.check_and_complete((number + 1) % 50)

    requests = [Request() for _ in range(50)]
    for number, request in enumerate(requests):
        purgatory.try_complete_else_watch(request, [number])
    for number, request in enumerate(requests):
        request.during["try"] = lambda number=number: notify_next(number)
    with pytest.raises(
        NotificationLoopError,
        match=r"the check of watch key \d+ caused an event for itself 1000 times",
    ):
        purgatory.check_and_complete(0)
    assert nested_checks.postponed == {}
    assert all(request.outcome is None for request in requests)
