"""What is told of an operation's end on a loop, and to whom."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from request_purgatory import (
    DelayedOperation,
    InvalidArgumentError,
    NotInitializedError,
    Outcome,
    PurgatoryClosedError,
)
from request_purgatory._native import primitives
from request_purgatory.aio import Purgatory
from tests.support.interleaving import interpreted_only
from tests.support.requests import Request
from tests.unit.aio.scenes import Scenario, opened, turns


class ElsewhereAlarm:
    """Calls a function when an operation is about to enter, as if threads switched there."""

    def __init__(self, alarm: Any, meanwhile: Callable[[], object]) -> None:
        self._alarm = alarm
        self._meanwhile = meanwhile

    def enter(self, operation: DelayedOperation, keys: list[str]) -> bool:
        self._meanwhile()
        entered: bool = self._alarm.enter(operation, keys)
        return entered

    def __getattr__(self, name: str) -> Any:
        return getattr(self._alarm, name)


def test_operation_that_ends_while_it_is_handed_over_wakes_its_waiter(play: Scenario) -> None:
    async def main() -> None:
        async with opened() as purgatory:
            request = Request(60_000)
            elsewhere: Any = ElsewhereAlarm(purgatory._alarm, request.force_complete)
            purgatory._here = lambda: elsewhere  # type: ignore[method-assign]
            waiting = purgatory.wait(request, ["a"])
            del purgatory._here
            assert await asyncio.wait_for(waiting, 1) == "completed"
            assert purgatory._answers.futures == {}

    play(main)


@interpreted_only
def test_operation_that_is_handed_over_as_its_end_is_told_wakes_its_waiter(
    play: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with opened() as purgatory:
            request = Request(60_000)
            waiting: list[asyncio.Future[Outcome]] = []
            lock_object = primitives.lock_object

            def lock_later(target: object) -> None:
                # The end has been noted, and the callbacks have run.
                if target is request and request.calls and not waiting:
                    waiting.append(asyncio.get_running_loop().create_future())
                    waiting[:] = [purgatory.wait(request, ["a"])]
                lock_object(target)

            monkeypatch.setattr(primitives, "lock_object", lock_later)
            primitives.wrappers.add(lock_later.__code__)
            assert request.force_complete()
            monkeypatch.setattr(primitives, "lock_object", lock_object)
            assert await asyncio.wait_for(waiting[0], 1) == "completed"

    play(main)


def test_waiter_is_woken_once_the_callbacks_have_run() -> None:
    begun, handed_over = threading.Event(), threading.Event()

    class Slow(DelayedOperation):
        reply = ""

        def try_complete(self) -> bool:
            return False

        def on_complete(self) -> None:
            begun.set()
            assert handed_over.wait(20)
            self.reply = "pong"

    async def main() -> None:
        async with opened() as purgatory:
            request = Slow(60_000)
            ending = asyncio.get_running_loop().run_in_executor(None, request.force_complete)
            assert begun.wait(20)
            waiting = purgatory.wait(request, ["a"])
            await turns()
            assert not waiting.done()
            handed_over.set()
            assert await asyncio.wait_for(waiting, 20) == "completed"
            assert request.reply == "pong"
            assert await ending is True

    asyncio.run(main())


@pytest.mark.parametrize("when", ["given", "added before the block", "added in the block"])
def test_hook_is_told_of_an_end_that_nobody_waits_for(play: Scenario, when: str) -> None:
    async def scenario() -> None:
        ended: list[DelayedOperation] = []
        hook = ended.append
        purgatory = Purgatory("test", on_end=hook if when == "given" else None)
        if when == "added before the block":
            purgatory._add_hooks(lambda *_: None, lambda _: None, hook)
        async with purgatory:
            if when == "added in the block":
                purgatory._add_hooks(lambda *_: None, lambda _: None, hook)
            request = Request()
            request.ready = True
            assert purgatory.try_complete_else_watch(request, ["a"])
            assert ended == [request]

    play(scenario)


def test_every_end_is_reported_once_after_the_callbacks(play: Scenario) -> None:
    async def scenario() -> None:
        ended: list[tuple[DelayedOperation, list[str]]] = []

        def on_end(operation: DelayedOperation) -> None:
            assert isinstance(operation, Request)
            ended.append((operation, list(operation.calls)))

        async with opened(on_end=on_end) as purgatory:
            completed, expired, cancelled = Request(), Request(10), Request()
            waiting = purgatory.wait(completed, ["a"])
            for operation in (expired, cancelled):
                purgatory.try_complete_else_watch(operation, ["a"])
            completed.ready = True
            purgatory.notify("a")
            assert await waiting == "completed"
            cancelled.cancel()
            await asyncio.sleep(0.02)
            assert purgatory.metrics().callback_errors == 0
        assert ended == [
            (completed, ["complete"]),
            (cancelled, ["cancellation"]),
            (expired, ["complete", "expiration"]),
        ]

    play(scenario)


def test_future_ends_where_another_class_took_the_name_of_its_own(
    play: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As nest_asyncio does, before Python 3.14."""
    monkeypatch.setattr(asyncio, "Future", asyncio.futures._PyFuture)  # type: ignore[attr-defined]

    async def scenario() -> None:
        async with opened() as purgatory:
            answered = purgatory.hold(["a"], until=lambda: True)
            expiring = purgatory.hold(["a"], until=lambda: False, timeout=0.01)
            by_hand = [purgatory.hold(["a"], until=lambda: False) for _ in range(3)]
            by_hand[0].set_result("by hand")
            by_hand[1].set_exception(LookupError())
            by_hand[2].cancel()
            assert await answered is True
            with pytest.raises(TimeoutError):
                await expiring
            assert await by_hand[0] == "by hand"
            with pytest.raises(LookupError):
                await by_hand[1]
            assert by_hand[2].cancelled()

    play(scenario)


def test_operation_that_completes_while_the_purgatory_closes_has_completed(
    play: Scenario,
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            second = Request()
            first = Request(cancellation=second.force_complete)
            waits = [purgatory.wait(operation, ["a"]) for operation in (first, second)]
            purgatory.close()
            with pytest.raises(PurgatoryClosedError):
                await waits[0]
            assert await waits[1] == "completed"

    play(scenario)


def test_future_that_is_set_by_hand_takes_its_request_out(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            answers = ["for another request"]
            held = [
                purgatory.hold(["a"], until=lambda: answers and answers.pop(), timeout=0),
                *(purgatory.hold(["b"], until=lambda: answers and answers.pop()) for _ in range(2)),
            ]
            assert await held[0] == "for another request"
            held[1].set_result("by hand")
            held[2].set_exception(ZeroDivisionError())
            assert purgatory.num_delayed == 0
            answers.append("for another request")
            purgatory.notify("b")
            assert answers == ["for another request"]
            assert await held[1] == "by hand"
            with pytest.raises(ZeroDivisionError):
                await held[2]
            with pytest.raises(asyncio.InvalidStateError):
                held[1].set_result("again")
            with pytest.raises(asyncio.InvalidStateError):
                held[1].set_exception(ZeroDivisionError())

    play(scenario)


def test_close_inside_of_a_close_cancels_what_is_left(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            inner: list[DelayedOperation] = []
            second = Request()
            first = Request(cancellation=lambda: inner.extend(purgatory.close()))
            for operation in (first, second):
                purgatory.try_complete_else_watch(operation, ["a"])
            assert purgatory.close() == [first]
            assert inner == [second]

    play(scenario)


def test_wrong_arguments_are_refused_before_anything_is_held(play: Scenario) -> None:
    with pytest.raises(InvalidArgumentError, match="on_end"):
        Purgatory(on_end=5)  # type: ignore[arg-type]

    async def scenario() -> None:
        async with opened() as purgatory:
            with pytest.raises(TypeError, match="operation"):
                purgatory.wait(5, ["a"])  # type: ignore[arg-type]
            with pytest.raises(AttributeError, match="'Purgatory' object has no attribute 'wiat'"):
                purgatory.wiat  # noqa: B018
            assert purgatory.num_delayed == 0

    play(scenario)


def test_operation_whose_init_did_not_run_says_so(play: Scenario) -> None:
    async def main() -> None:
        async with opened() as purgatory:
            with pytest.raises(NotInitializedError, match="Request"):
                purgatory.wait(Request.__new__(Request), ["a"])
            assert purgatory._answers.futures == {}

    play(main)
