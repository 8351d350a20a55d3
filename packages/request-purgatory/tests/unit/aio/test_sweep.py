"""Notifying keys in batches: who is tried in which of the loop's rounds."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from request_purgatory import NotificationLoopError, PurgatoryClosedError
from request_purgatory.aio import Purgatory, sweep
from request_purgatory.purgatory._nested_checks import MOST_IN_VAIN
from tests.support.requests import Request
from tests.unit.aio.scenes import Condition, Scenario, opened, turns


def hold(purgatory: Purgatory, key: str, count: int) -> tuple[Condition, list[asyncio.Future[Any]]]:
    """Have `count` waiters of a key with one condition, whose looks count from now on."""
    condition = Condition()
    held = [purgatory.hold([key], until=condition, timeout=1) for _ in range(count)]
    condition.looks = 0
    return condition, held


def cancel(*groups: list[asyncio.Future[Any]]) -> None:
    for group in groups:
        for future in group:
            future.cancel()


def test_every_waiter_is_tried_once_in_batches(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=11) as purgatory:
            conditions = [Condition() for _ in range(20)]
            held = [purgatory.hold(["a"], until=each, timeout=1) for each in conditions]
            for condition in conditions:
                condition.value, condition.looks = "answer", 0
            purgatory.notify("a")
            assert [future.done() for future in held] == [True] * 11 + [False] * 9
            await turns(1)
            assert [future.done() for future in held] == [True] * 20
            assert [condition.looks for condition in conditions] == [1] * 20

    play(scenario)


def test_key_that_a_condition_notifies_twice_is_swept_once(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            condition, held = hold(purgatory, "b", 2)
            notifying = False

            def until() -> bool:
                if notifying:
                    purgatory.notify("b")
                    purgatory.notify("b")
                    assert condition.looks == 0
                return notifying

            first = purgatory.hold(["a"], until=until, timeout=1)
            notifying = True
            purgatory.notify("a")
            assert await first is True
            assert condition.looks == 2
            await turns()
            assert condition.looks == 2
            cancel(held)

    play(scenario)


def test_key_without_waiters_takes_no_share_of_a_batch(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=2) as purgatory:
            _, lost = hold(purgatory, "gone", 1)
            condition, held = hold(purgatory, "b", 2)
            notifying = False

            def until() -> bool:
                if notifying:
                    purgatory.notify("gone")
                    purgatory.notify("b")
                    purgatory.cancel_for_key("gone")
                return notifying

            first = purgatory.hold(["a"], until=until, timeout=1)
            notifying = True
            purgatory.notify("a")
            assert (first.done(), condition.looks) == (True, 1)
            await turns(1)
            assert condition.looks == 2
            await asyncio.gather(*lost, return_exceptions=True)
            cancel(held)

    play(scenario)


def test_rest_of_a_key_leaves_room_in_the_batch_for_the_next(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=4) as purgatory:
            first, held = hold(purgatory, "a", 6)
            second, others = hold(purgatory, "b", 7)
            purgatory.notify("a")
            purgatory.notify("b")
            assert (first.looks, second.looks) == (4, 4)
            await turns(1)
            assert (first.looks, second.looks) == (6, 6)
            await turns(1)
            assert (first.looks, second.looks) == (6, 7)
            cancel(held, others)

    play(scenario)


def test_second_pass_tries_those_who_came_after_the_first(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=2) as purgatory:
            _, held = hold(purgatory, "a", 4)
            purgatory.notify("a")
            late, newcomers = hold(purgatory, "a", 1)
            purgatory.notify("a")
            late.value = "answer"
            assert await newcomers[0] == "answer"
            cancel(held)

    play(scenario)


def test_notify_between_two_passes_needs_no_third(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=2) as purgatory:
            condition, held = hold(purgatory, "a", 4)
            purgatory.notify("a")
            purgatory.notify("a")
            await turns(1)
            assert condition.looks == 4
            purgatory.notify("a")
            await turns(10)
            assert condition.looks == 8
            cancel(held)

    play(scenario)


def test_notify_that_nobody_waits_for_tries_no_later_waiter(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            late = Condition()
            held: list[asyncio.Future[Any]] = []
            notifying = False

            def until() -> bool:
                if notifying:
                    purgatory.notify("b")
                    held.append(purgatory.hold(["b"], until=late, timeout=1))
                return notifying

            first = purgatory.hold(["a"], until=until, timeout=1)
            notifying = True
            purgatory.notify("a")
            assert await first is True
            await turns()
            assert late.looks == 1
            cancel(held)

    play(scenario)


def test_interrupted_notify_is_repeated_by_the_loop(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            other, others = hold(purgatory, "b", 1)
            condition = Condition()
            looks: list[bool] = []

            def until() -> object:
                looks.append(True)
                if len(looks) == 2:
                    raise KeyboardInterrupt
                return condition()

            held = purgatory.hold(["a"], until=until, timeout=1)
            with pytest.raises(KeyboardInterrupt):
                purgatory.notify("a")
            condition.value = "answer"
            purgatory.notify("b")
            assert other.looks == 1
            assert not held.done()
            await turns(1)
            assert held.result() == "answer"
            cancel(others)

    play(scenario)


def test_purgatory_that_is_closed_keeps_nothing_that_it_was_to_try(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=1) as purgatory:
            requests = [Request() for _ in range(3)]
            ghosts = [weakref.ref(request) for request in requests]
            for request in requests:
                purgatory.try_complete_else_watch(request, ["a"])
            purgatory.notify("a")
            purgatory.close()
            requests.clear()
            del request
            assert [ghost() for ghost in ghosts] == [None] * 3

    play(scenario)


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_condition_that_closes_the_purgatory_ends_the_sweep(play: Scenario, batch: int) -> None:
    async def scenario() -> None:
        async with opened(batch=batch) as purgatory:
            closing = False

            def until() -> None:
                if closing:
                    purgatory.close()

            held = [purgatory.hold(["a"], until=until, timeout=1)]
            condition, others = hold(purgatory, "a", 3)
            other, more = hold(purgatory, "b", 3)
            closing = True
            purgatory.notify("a")
            purgatory.notify("b")
            await turns(5)
            assert (condition.looks, other.looks) == (0, 0)
            for future in [*held, *others, *more]:
                with pytest.raises(PurgatoryClosedError):
                    await future

    play(scenario)


def notifying(purgatory: Purgatory, pairs: dict[str, str], armed: list[bool]) -> Condition:
    """Have a waiter of each key whose condition notifies another key once this is armed."""
    looks = Condition()
    for key, other in pairs.items():

        def until(other: str = other) -> bool:
            looks()
            if armed:
                purgatory.notify(other)
            return False

        purgatory.hold([key], until=until, timeout=1)
    return looks


@pytest.mark.parametrize("batch", [1, 100])
@pytest.mark.parametrize("pairs", [{"a": "b", "b": "a"}, {"a": "a"}], ids=["two", "one"])
def test_conditions_that_notify_one_another_without_end_are_left_out(
    play: Scenario, pairs: dict[str, str], batch: int
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with opened(batch=batch) as purgatory:
            raised: list[BaseException] = []
            loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
            armed: list[bool] = []
            looks = notifying(purgatory, pairs, armed)
            armed.append(True)
            for times in (1, 2):
                try:
                    purgatory.notify("a")
                except NotificationLoopError as error:
                    raised.append(error)
                await asyncio.sleep(0.1)
                assert [type(error) for error in raised] == [NotificationLoopError] * times
                assert looks.looks <= times * (2 * MOST_IN_VAIN + 10)
            armed.clear()
            ended = Condition(1)
            assert await purgatory.hold(["a"], until=ended, timeout=1) == 1
            purgatory.close()

    play(scenario)


def test_chain_of_completions_may_be_as_long_as_it_likes(play: Scenario) -> None:
    length = 3 * MOST_IN_VAIN

    async def scenario() -> None:
        async with opened(batch=7) as purgatory:
            reached = [False] * length

            def until(number: int) -> bool:
                if reached[number] and number + 1 < length:
                    reached[number + 1] = True
                    purgatory.notify(number + 1)
                    purgatory.notify("of all")
                return reached[number]

            held = [
                purgatory.hold([number], until=partial(until, number), timeout=60)
                for number in range(length)
            ]
            watching = purgatory.hold(["of all"], until=lambda: False, timeout=60)
            reached[0] = True
            purgatory.notify(0)
            assert await asyncio.gather(*held) == [True] * length
            watching.cancel()

    play(scenario)


@pytest.fixture
def few_passes(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let keys be left out after six passes in vain."""
    monkeypatch.setattr(sweep, "MOST_IN_VAIN", 6)
    return 6


@pytest.mark.parametrize("batch", [1, 100])
def test_keys_are_left_out_after_so_many_passes_in_vain(
    play: Scenario, few_passes: int, batch: int
) -> None:
    async def scenario() -> None:
        async with opened(batch=batch) as purgatory:
            raised = note_errors()
            armed: list[bool] = []
            looks = notifying(purgatory, {"a": "b", "b": "a"}, armed)
            armed.append(True)
            looks.looks = 0
            notify_noting(purgatory, "a", raised)
            await turns(40)
            assert [type(error) for error in raised] == [NotificationLoopError]
            # The first look is that of `notify` itself, which is no pass.
            assert looks.looks == 2 * few_passes + 1
            purgatory.close()

    play(scenario)


@pytest.mark.parametrize("end", [Request.force_complete, Request.cancel])
def test_passes_in_which_operations_end_in_any_way_are_not_in_vain(
    play: Scenario, few_passes: int, end: Callable[[Request], bool]
) -> None:
    """Each ends itself in its try without saying so, and brings about the try of the next."""
    length = 5 * few_passes

    async def scenario() -> None:
        async with opened() as purgatory:
            over: list[int] = []

            class Step(Request):
                number = 0

                def try_complete(self) -> bool:
                    if len(over) == self.number and over_may_begin:
                        end(self)
                    return False

                def on_complete(self) -> None:
                    over.append(self.number)
                    purgatory.notify("progress")
                    purgatory.notify(self.number + 1)

                def on_cancellation(self) -> None:
                    self.on_complete()

            over_may_begin: list[bool] = []
            for number in range(length):
                step = Step(60_000)
                step.number = number
                purgatory.try_complete_else_watch(step, [number])
            waiting = purgatory.hold(["progress"], until=lambda: len(over) == length)
            over_may_begin.append(True)
            purgatory.notify(0)
            assert await asyncio.wait_for(waiting, 1)

    play(scenario)


def test_key_that_many_callbacks_notify_in_vain_while_another_is_swept_is_not_left_out(
    play: Scenario, few_passes: int
) -> None:
    """Its passes have not brought one another about, so it is no loop."""

    async def scenario() -> None:
        async with opened(batch=10) as purgatory:
            done: list[int] = []
            jobs = 10 * few_passes
            polls = [purgatory.hold(["news"], until=lambda: False) for _ in range(20 * jobs)]

            def job(number: int) -> bool:
                if number in ready:
                    done.append(number)
                    purgatory.notify("done")
                return number in ready

            ready: set[int] = set()
            held = [purgatory.hold([n], until=partial(job, n)) for n in range(jobs)]
            looks = [purgatory.hold(["look"], until=lambda: purgatory.notify("done"))]  # type: ignore[func-returns-value]
            waiting = purgatory.hold(["done"], until=lambda: len(done) == jobs)
            purgatory.notify("news")  # Its sweep goes on in later rounds, nobody is satisfied.
            for number in range(jobs):
                for _ in range(few_passes):
                    purgatory.notify("look")
                ready.add(number)
                purgatory.notify(number)
            assert await asyncio.wait_for(waiting, 1)
            assert await asyncio.gather(*held) == [True] * jobs
            for future in (*polls, *looks):
                future.cancel()

    play(scenario)


@pytest.mark.parametrize("batch", [3, 100])
def test_pass_that_completes_something_begins_the_count_anew(
    play: Scenario, few_passes: int, batch: int
) -> None:
    async def scenario() -> None:
        async with opened(batch=batch) as purgatory:
            raised = note_errors()
            left = 10
            armed: list[bool] = []

            def one_of_them() -> bool:
                nonlocal left
                if armed and left and armed.pop():
                    left -= 1
                    return True
                return False

            def again() -> bool:
                if left < 10 or armed:
                    armed[:] = [True]
                    purgatory.notify("b")
                return False

            waiters = [purgatory.hold(["b"], until=one_of_them) for _ in range(12)]
            purgatory.hold(["a", "b"], until=again)
            armed.append(True)
            notify_noting(purgatory, "b", raised)
            await turns(200)
            assert sum(future.done() for future in waiters) == 10
            assert [type(error) for error in raised] == [NotificationLoopError]
            purgatory.close()

    play(scenario)


def test_pass_of_many_steps_counts_once(play: Scenario, few_passes: int) -> None:
    async def scenario() -> None:
        async with opened(batch=1) as purgatory:
            condition, held = hold(purgatory, "a", 3 * few_passes)
            purgatory.notify("a")
            await turns(4 * few_passes)
            assert condition.looks == 3 * few_passes
            cancel(held)

    play(scenario)


def test_key_that_was_left_out_is_tried_for_an_event_from_outside(
    play: Scenario, few_passes: int
) -> None:
    async def scenario() -> None:
        async with opened(batch=1) as purgatory:
            raised = note_errors()
            armed: list[bool] = []
            notifying(purgatory, {"a": "a"}, armed)
            second, held = hold(purgatory, "a", 1)  # Two are more than a batch.
            busy, others = hold(purgatory, "b", 200)
            armed.append(True)
            purgatory.notify("a")
            purgatory.notify("b")
            await turns(5 * few_passes)
            assert len(raised) == 1
            tried = second.looks
            assert busy.looks < 150
            armed.clear()
            purgatory.notify("a")
            await turns(300)  # The second one's turn comes after all of "b".
            assert second.looks == tried + 1
            cancel(held, others)
            purgatory.close()

    play(scenario)


def note_errors() -> list[BaseException]:
    """Have the running loop note what it would log."""
    noted: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: noted.append(context["exception"])
    )
    return noted


def notify_noting(purgatory: Purgatory, key: str, raised: list[BaseException]) -> None:
    """Notify a key; whether the call or a later round of the loop raises, it is noted."""
    try:
        purgatory.notify(key)
    except NotificationLoopError as error:
        raised.append(error)
