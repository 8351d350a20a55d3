"""An end near Python's recursion limit is made whole: who waits gets the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from itertools import pairwise

import pytest

import request_purgatory
from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    PurgatoryClosedError,
    SystemTimer,
)
from request_purgatory.aio import Purgatory
from request_purgatory.purgatory.hold_future import HoldFuture
from tests.unit.aio.virtual import run

pytestmark = pytest.mark.skipif(
    not request_purgatory.__compiled__,
    reason="Python has no call by which the interpreted core could borrow levels",
)

#: The levels below the limit in which the tests call.
NEAR = 80


@pytest.fixture(autouse=True)
def silent(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL):
        yield


def go_down(levels: int, call: Callable[[], object]) -> object:
    return call() if levels <= 0 else go_down(levels - 1, call)


def levels_left() -> int:
    levels = 0

    def count() -> None:
        nonlocal levels
        levels += 1
        count()

    with pytest.raises(RecursionError):
        count()
    return levels


def call_near_the_limit(levels: int, call: Callable[[], object]) -> bool:
    """Make a call some levels above the limit.

    Returns:
        False if it met the limit.
    """
    try:
        go_down(levels_left() - NEAR + levels, call)
    except RecursionError:
        return False
    return True


Scene = tuple[DelayedOperationPurgatory, "Future[object]", ManualClock, list[object]]

ENDS: dict[str, Callable[[Scene], object]] = {
    "notify": lambda scene: scene[0].notify("key"),
    "timeout": lambda scene: scene[0].advance_clock(0),
    "cancel": lambda scene: scene[1].cancel(),
    "set_result": lambda scene: scene[1].set_result("by hand"),
    "cancel_for_key": lambda scene: scene[0].cancel_for_key("key"),
    "close": lambda scene: scene[0].close(),
}


@pytest.mark.parametrize("end", ENDS)
def test_future_whose_operation_has_ended_is_done_and_has_told_everybody(end: str) -> None:
    ended = 0
    before = levels_left()
    for levels in range(NEAR):
        clock = ManualClock()
        with DelayedOperationPurgatory(
            timer=SystemTimer("timer", clock=clock), reaper=False
        ) as purgatory:
            flag: list[object] = []
            held: Future[object] = purgatory.hold(
                ["key"],
                until=lambda flag=flag: flag,  # type: ignore[misc]
                timeout=1.0,
            )
            assert isinstance(held, HoldFuture)
            told: list[object] = []
            held.add_done_callback(told.append)
            flag.append("now")
            clock.advance(2_000 if end == "timeout" else 0)
            scene = (purgatory, held, clock, flag)
            call_near_the_limit(levels, lambda scene=scene: ENDS[end](scene))  # type: ignore[misc]
            if held.operation.outcome is None:
                assert not held.done() or end in ("cancel", "set_result")
                continue
            ended += 1
            assert wait([held], timeout=0).done == {held}
            assert told == [held]
            assert purgatory.num_delayed == 0
    assert ended > NEAR / 2
    assert levels_left() == before, "what is borrowed is given back"


class Answering(DelayedOperation):
    def __init__(self) -> None:
        super().__init__(1_000)
        self.answers: list[str] = []

    def try_complete(self) -> bool:
        return self.force_complete()

    def on_complete(self) -> None:
        self._answer("complete")

    def on_expiration(self) -> None:
        self._answer("expired")

    def on_cancellation(self) -> None:
        self._answer("cancelled")

    def _answer(self, text: str) -> None:
        self.answers.append(text)


@pytest.mark.parametrize(
    ("call", "outcome", "answers"),
    [
        (Answering.force_complete, "completed", ["complete"]),
        (Answering.run, "expired", ["complete", "expired"]),
        (Answering.cancel, "cancelled", ["cancelled"]),
    ],
    ids=["force_complete", "run", "cancel"],
)
def test_operation_that_has_ended_has_run_its_callbacks(
    call: Callable[[Answering], object], outcome: str, answers: list[str]
) -> None:
    ended = 0
    for levels in range(NEAR):
        operation = Answering()
        call_near_the_limit(levels, lambda operation=operation: call(operation))  # type: ignore[misc]
        if operation.outcome is not None:
            ended += 1
            assert (operation.outcome, operation.answers) == (outcome, answers)
    assert ended > NEAR / 2


def test_ends_that_cause_one_another_meet_a_limit_and_not_the_end_of_the_stack() -> None:
    with DelayedOperationPurgatory(reaper=False) as purgatory:
        held: list[Future[object]] = [
            purgatory.hold([number], until=lambda: None) for number in range(5_000)
        ]
        for first, second in pairwise(held):
            first.add_done_callback(lambda _, second=second: second.cancel())  # type: ignore[misc]
        held[0].cancel()
        assert 0 < sum(future.done() for future in held) < len(held)


def walk(reached: set[int], event: Callable[[int], object]) -> None:
    level = 0

    def go_on() -> None:
        nonlocal level
        reached.add(level)
        event(level)
        level += 1
        go_on()

    with pytest.raises(RecursionError):
        go_on()


def test_tasks_of_a_loop_wake_though_their_event_came_at_the_limit() -> None:
    async def scenario() -> None:
        reached: set[int] = set()
        async with Purgatory() as purgatory:

            async def hold(level: int) -> None:
                await purgatory.hold([level], until=lambda: level in reached, timeout=1.0)

            tasks = [asyncio.ensure_future(hold(level)) for level in range(1_100)]
            await asyncio.sleep(0)
            walk(reached, purgatory.notify)
            await asyncio.sleep(2.0)
            assert all(task.done() for task in tasks)
            for task in tasks:
                task.exception()

    run(scenario)


def test_waits_of_a_loop_end_though_their_operations_ended_at_the_limit() -> None:
    async def scenario() -> None:
        async with Purgatory() as purgatory:
            operations = [Waiting() for _ in range(1_100)]
            tasks = [
                purgatory.wait(operation, [number]) for number, operation in enumerate(operations)
            ]
            await asyncio.sleep(0)
            walk(set(), lambda level: operations[level].force_complete())
            await asyncio.sleep(0)
            ended = [operation.outcome for operation in operations]
            assert ended.count("completed") > 800
            for task, outcome in zip(tasks, ended, strict=True):
                assert task.done() == (outcome is not None)
                if outcome is not None:
                    assert task.result() == outcome
        for task in tasks:
            if not task.done():
                with pytest.raises(PurgatoryClosedError):
                    await task

    run(scenario)


class Waiting(Answering):
    def try_complete(self) -> bool:
        return False
