"""The hooks `on_watch`, `on_try` and `on_end`, of threads and of an event loop."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

from request_purgatory import DelayedOperation, DelayedOperationPurgatory, aio
from request_purgatory._native import primitives
from tests.conftest import MakePurgatory
from tests.support.invariants import check_invariants
from tests.support.requests import Fault, Request, fail

Calls = list[tuple[str, object]]


@pytest.fixture
def calls() -> Calls:
    return []


@pytest.fixture
def hooks(calls: Calls) -> dict[str, Any]:
    """Return hooks that note their calls."""

    def on_watch(_: DelayedOperation, keys: Sequence[Hashable]) -> None:
        calls.append(("watch", list(keys)))

    return {
        "on_watch": on_watch,
        "on_try": lambda operation: calls.append(("try", operation.outcome)),
        "on_end": lambda operation: calls.append(("end", operation.outcome)),
    }


def test_hooks_are_called_in_order(
    make_purgatory: MakePurgatory, hooks: dict[str, Any], calls: Calls
) -> None:
    purgatory = make_purgatory(**hooks)
    request = Request(complete=lambda: calls.append(("complete", None)))
    purgatory.try_complete_else_watch(request, ["a", "b"])
    request.ready = True
    purgatory.check_and_complete("b")
    purgatory.check_and_complete("a")
    assert calls == [
        ("watch", ["a", "b"]),
        ("try", None),
        ("try", None),
        ("complete", None),
        ("end", "completed"),
    ]


def test_hooks_of_a_loop_are_called_in_order(hooks: dict[str, Any], calls: Calls) -> None:
    async def main() -> None:
        async with aio.Purgatory(**hooks) as purgatory:
            assert await purgatory.hold(["a"], until=lambda: True)

    asyncio.run(main())
    assert calls == [("watch", ["a"]), ("try", None), ("end", "completed")]


def test_hooks_are_added_inside_of_a_block(hooks: dict[str, Any], calls: Calls) -> None:
    seen: list[DelayedOperation] = []

    async def main() -> None:
        async with aio.Purgatory(on_end=seen.append) as purgatory:
            purgatory._add_hooks(**hooks)
            await purgatory.hold(["a"], until=lambda: True)

    asyncio.run(main())
    assert calls == [("watch", ["a"]), ("try", None), ("end", "completed")]
    assert len(seen) == 1


def test_hooks_are_added_beside_the_on_end_of_the_owner(
    make_purgatory: MakePurgatory, hooks: dict[str, Any], calls: Calls
) -> None:
    seen: list[DelayedOperation] = []
    purgatory = make_purgatory(on_end=seen.append)
    purgatory._add_hooks(**hooks)
    request = Request(ready=True)
    purgatory.try_complete_else_watch(request, ["a"])
    assert calls == [("watch", ["a"]), ("try", None), ("end", "completed")]
    assert seen == [request]


@pytest.mark.parametrize("during", [{"try": fail}, {"complete": fail}], ids=["try", "complete"])
def test_every_watch_has_an_end_also_where_the_caller_gets_an_error(
    make_purgatory: MakePurgatory, hooks: dict[str, Any], calls: Calls, during: dict[str, Any]
) -> None:
    purgatory = make_purgatory(**hooks)
    with pytest.raises(Fault):
        purgatory.try_complete_else_watch(Request(ready="try" not in during, **during), ["a"])
    outcome = "cancelled" if "try" in during else "completed"
    assert calls == [("watch", ["a"]), ("try", None), ("end", outcome)]


def test_operation_that_had_ended_is_watched_by_no_hook(
    make_purgatory: MakePurgatory, hooks: dict[str, Any], calls: Calls
) -> None:
    request = Request()
    request.cancel()
    make_purgatory(**hooks).try_complete_else_watch(request, ["a"])
    assert calls == []


@pytest.mark.skipif(primitives.COMPILED, reason="compiled, the lock of operations is in C only")
def test_operation_that_ends_right_before_its_try_is_no_longer_told_of(
    make_purgatory: MakePurgatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[DelayedOperation] = []
    purgatory = make_purgatory(on_try=told.append)
    request = Request()
    purgatory.try_complete_else_watch(request, ["a"])
    unlock = primitives.unlock_object

    def unlock_and_end(operation: DelayedOperation) -> None:
        monkeypatch.undo()
        unlock(operation)
        assert operation.force_complete()

    monkeypatch.setattr(primitives, "unlock_object", unlock_and_end)
    purgatory.check_and_complete("a")
    assert (request.tries, told) == (2, [request])


def test_operation_of_a_freed_purgatory_ends_where_its_watch_was_told(
    hooks: dict[str, Any], calls: Calls
) -> None:
    purgatory = DelayedOperationPurgatory(reaper=False, **hooks)
    purgatory.try_complete_else_watch(Request(), ["a"])
    del purgatory
    gc.collect()
    assert calls[-1] == ("end", "cancelled")
    silent = DelayedOperationPurgatory(reaper=False, on_end=hooks["on_end"])
    silent.try_complete_else_watch(Request(), ["a"])
    calls.clear()
    del silent
    gc.collect()
    assert calls == []


def test_operation_that_a_hook_ends_while_the_purgatory_is_freed_has_one_end() -> None:
    ended: list[object] = []

    def make() -> None:
        first, second = Request(), Request()

        def on_end(operation: DelayedOperation) -> None:
            ended.append(operation.outcome)
            second.force_complete()

        purgatory = DelayedOperationPurgatory(reaper=False, on_watch=lambda *_: None, on_end=on_end)
        purgatory.try_complete_else_watch(first, ["a"])
        purgatory.try_complete_else_watch(second, ["a"])

    make()
    gc.collect()
    assert ended == ["cancelled", "completed"]


def test_error_of_a_hook_while_the_purgatory_is_freed_is_reported_once_all_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[object] = []

    def on_end(operation: DelayedOperation) -> None:
        ended.append(operation.outcome)
        raise Fault

    reports: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_type))
    purgatory = DelayedOperationPurgatory(reaper=False, on_watch=lambda *_: None, on_end=on_end)
    for _ in range(2):
        purgatory.try_complete_else_watch(Request(), ["a"])
    del purgatory
    gc.collect()
    assert (ended, reports) == (["cancelled"] * 2, [Fault])


def test_hook_that_raises_before_a_try_leaves_no_try_behind(
    make_purgatory: MakePurgatory, hooks: dict[str, Any]
) -> None:
    purgatory = make_purgatory(on_try=lambda _: raising and fail())
    raising = False
    request = Request()
    purgatory.try_complete_else_watch(request, ["a"])
    raising = True
    assert purgatory.check_and_complete("a") == 0
    assert (request.tries, purgatory.metrics().callback_errors) == (2, 1)
    request.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert (request.tries, purgatory.metrics().callback_errors) == (3, 2)


@pytest.mark.parametrize("by_another_thread", [False, True])
def test_event_during_the_hook_is_a_further_try_with_its_own_hook(
    make_purgatory: MakePurgatory, by_another_thread: bool
) -> None:
    calls: list[str] = []

    def on_try(_: DelayedOperation) -> None:
        calls.append("hook")
        if len(calls) == 3:
            if by_another_thread:
                thread = threading.Thread(target=purgatory.check_and_complete, args=("a",))
                thread.start()
                thread.join(timeout=30)
            else:
                purgatory.check_and_complete("a")

    purgatory = make_purgatory(on_try=on_try)
    request = Request(**{"try": lambda: calls.append("try")})
    purgatory.try_complete_else_watch(request, ["a"])
    purgatory.check_and_complete("a")
    assert calls == ["hook", "try", "hook", "try", "hook", "try"]


def test_hook_that_raises_before_a_repeated_try_leaves_no_try_behind(
    make_purgatory: MakePurgatory,
) -> None:
    tries: list[object] = []

    def on_try(operation: DelayedOperation) -> None:
        tries.append(operation)
        if len(tries) == 3:
            fail()

    purgatory = make_purgatory(on_try=on_try)
    request = Request()
    purgatory.try_complete_else_watch(request, ["a"])
    request.during["try"] = lambda: request.tries == 2 and purgatory.check_and_complete("a")
    assert purgatory.check_and_complete("a") == 0
    assert (request.tries, purgatory.metrics().callback_errors) == (3, 1)
    request.ready = True
    assert purgatory.check_and_complete("a") == 1
    check_invariants(purgatory)


def test_operation_that_was_refused_has_no_end_for_those_who_saw_no_beginning(
    make_wheel_purgatory: MakePurgatory,
) -> None:
    ended: list[DelayedOperation] = []
    purgatory = make_wheel_purgatory(on_end=ended.append)
    request = Request(60_000, **{"try": fail})
    with pytest.raises(Fault):
        purgatory.try_complete_else_watch(request, ["a"])
    assert (request.outcome, ended) == ("cancelled", [])
