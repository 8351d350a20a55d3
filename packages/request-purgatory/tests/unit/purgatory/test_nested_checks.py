"""Chains: callbacks that check the keys of operations whose callbacks check further keys."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable
from contextlib import suppress
from types import FrameType

import pytest

from request_purgatory import DelayedOperation, DelayedOperationPurgatory, NotificationLoopError
from request_purgatory.purgatory import _nested_checks as nested_checks
from tests.support.requests import Fault, Request

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
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("AddressSanitizer takes a switch of stacks for a fault")
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


class Interrupting:
    """Stands for a function of a module and raises before its first call, as a handler may.

    Attributes:
        left: The number of calls before which it raises.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.left = 1

    def __call__(self, *args: object) -> object:
        if self.left:
            self.left -= 1
            raise KeyboardInterrupt
        return self.function(*args)


@pytest.mark.parametrize("name", ["postpone", "check_postponed"])
def test_interrupted_postponement_loses_no_check(
    purgatory: DelayedOperationPurgatory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    links = make_chain(purgatory, 60)
    interrupting = Interrupting(getattr(nested_checks, name))
    monkeypatch.setattr(nested_checks, name, interrupting)
    with pytest.raises(KeyboardInterrupt):
        purgatory.check_and_complete(0)
    assert interrupting.left == 0
    assert [link.outcome for link in links] == ["completed"] * 60
    assert nested_checks.postponed == {}


def test_checks_that_were_interrupted_twice_are_made_by_the_next_one(
    purgatory: DelayedOperationPurgatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = make_chain(purgatory, 60)
    purgatory.try_complete_else_watch(Request(60_000), ["other"])
    interrupting = Interrupting(nested_checks.check_postponed)
    interrupting.left = 2
    monkeypatch.setattr(nested_checks, "check_postponed", interrupting)
    with pytest.raises(KeyboardInterrupt):
        purgatory.check_and_complete(0)
    assert links[-1].outcome is None
    purgatory.check_and_complete("other")
    assert [link.outcome for link in links] == ["completed"] * 60
    assert nested_checks.postponed == {}


def test_handler_that_raises_at_a_call_of_the_core_loses_no_postponed_check(
    purgatory: DelayedOperationPurgatory,
) -> None:
    """Compiled, no function of that module can be interrupted."""

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_name == "check_postponed":
            sys.settrace(before)
            raise KeyboardInterrupt

    links = make_chain(purgatory, 60)
    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with suppress(KeyboardInterrupt):
            purgatory.check_and_complete(0)
    finally:
        sys.settrace(before)
    assert [link.outcome for link in links] == ["completed"] * 60


def test_key_that_raises_in_a_postponed_check_stops_no_other(
    purgatory: DelayedOperationPurgatory,
) -> None:
    class Key:
        broken = False

        def __hash__(self) -> int:
            if self.broken:
                raise Fault
            return 1

    class Breaking(Link):
        def on_complete(self) -> None:
            purgatory.check_and_complete(key)
            super().on_complete()
            key.broken = True

    key = Key()
    watching = Request(60_000)
    purgatory.try_complete_else_watch(watching, [key])
    links = make_chain(purgatory, 40)
    purgatory.cancel_for_key(19)
    breaking = Breaking(purgatory, 19)
    purgatory.try_complete_else_watch(breaking, [19])
    breaking.ready = True
    with pytest.raises(Fault):
        purgatory.check_and_complete(0)
    assert breaking.outcome == "completed"
    assert [link.outcome for link in links[20:]] == ["completed"] * 20
    assert nested_checks.postponed == {}
    key.broken = False


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


class Checked:
    """Stands for a purgatory one of whose keys causes an event for itself, without end."""

    def __init__(self, *others: str) -> None:
        self.others = others
        self.checked: list[str] = []

    def _check(self, key: Hashable, counts_ends: bool) -> int:
        assert isinstance(key, str)
        self.checked.append(key)
        if key == "endless":
            nested_checks.postpone(1, self, key)
            if self.checked.count(key) == 999:
                for other in self.others:
                    nested_checks.postpone(1, self, other)
        return 0


def test_checks_that_come_after_one_without_end_are_made() -> None:
    checked = Checked("first", "second")
    nested_checks.postpone(1, checked, "endless")
    with pytest.raises(NotificationLoopError, match="'endless'"):
        nested_checks.check_postponed(1)
    assert checked.checked == ["endless"] * 1000 + ["first", "second"]
    assert nested_checks.postponed == {}


def test_cascade_of_cancellations_of_any_length_is_no_loop() -> None:
    """They complete nothing, and the key that each of them notifies is checked deep inside."""
    length = 21 * nested_checks.MOST_IN_VAIN + 5
    over: list[int] = []
    with DelayedOperationPurgatory("test", reaper=False) as purgatory:

        class Step(Request):
            number = 0

            def try_complete(self) -> bool:
                return len(over) == self.number and began and self.cancel()

            def on_cancellation(self) -> None:
                over.append(self.number)
                purgatory.notify("progress")
                purgatory.notify(self.number + 1)

        began = False
        for number in range(length):
            step = Step(60_000)
            step.number = number
            purgatory.try_complete_else_watch(step, [number])
        waiting = purgatory.hold(["progress"], until=lambda: len(over) == length)
        began = True
        purgatory.notify(0)
        assert waiting.result(0)
