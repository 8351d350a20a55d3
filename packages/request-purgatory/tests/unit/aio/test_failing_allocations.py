"""Every public call of a purgatory on an event loop, where it finds no memory."""

from __future__ import annotations

import asyncio
import asyncio.events
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from request_purgatory import DelayedOperation
from request_purgatory._native import primitives
from request_purgatory.aio import Purgatory
from tests.support.failing_allocations import (
    fails_at_the_limit,
    fails_each,
    fails_in_a_row,
    with_whole_lists,
)
from tests.support.invariants import check_invariants
from tests.unit.aio.virtual import VirtualLoop, VirtualWheelLoop

pytest.importorskip("_testcapi", reason="this Python has no tests of its own")

pytestmark = [
    pytest.mark.slow,
    with_whole_lists,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.skipif(
        not primitives.COMPILED, reason="interpreted, each number is an object that needs memory"
    ),
]


class Counted(DelayedOperation):
    """Counts its ends; small numbers need no memory."""

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.ready = False
        self.ended = 0

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.ended += 1

    def on_cancellation(self) -> None:
        self.ended += 1


class LoopScene:
    """An entered purgatory on a loop in virtual time, which counts as running for the call."""

    def __init__(self, loop: type[VirtualLoop], call: Callable[[Any], object]) -> None:
        self.loop = loop()
        self.purgatory = Purgatory("test", batch=5)
        self.requests = [Counted(10 if number % 2 else 5_000) for number in range(12)]
        self.requests[0].ready = self.requests[3].ready = False
        self.new = Counted(20)
        self.answers: list[asyncio.Future[Any]] = []
        self.parts: list[asyncio.Future[int]] = []
        self.loop.run_until_complete(self._enter())
        self.requests[0].ready = self.requests[3].ready = True
        self._call = call
        asyncio.events._set_running_loop(self.loop)

    async def _enter(self) -> None:
        purgatory = await self.purgatory.__aenter__()
        for number, request in enumerate(self.requests):
            keys = ["a", "b", number % 3][: 1 + number % 3]
            if number < 3:
                self.answers.append(purgatory.wait(request, keys))
            else:
                purgatory.try_complete_else_watch(request, keys)
        self.answers.append(purgatory.hold(["a", "h"], until=bool, timeout=0.01))
        self.answers.append(purgatory.hold(["h"], until=bool, timeout=60))
        self.parts += [asyncio.get_running_loop().create_future() for _ in range(3)]
        self.answers.append(purgatory.gather(self.parts, quorum=2, timeout=0.01))

    def call(self) -> object:
        return self._call(self)

    def check(self, failed: bool) -> None:
        asyncio.events._set_running_loop(None)
        self.loop.run_until_complete(self._check())
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _check(self) -> None:
        purgatory = self.purgatory
        if not purgatory.is_closed:
            check_invariants(purgatory)
            # An event that another thread brings, or the next round.
            further = Counted(1_000)
            future = purgatory.wait(further, ["z"])
            further.ready = True
            purgatory.notify("z")
            assert await future == "completed"
            await asyncio.sleep(0.1)
            assert purgatory._core is not None
            for request in self.requests:
                assert request.is_completed or request.timeout_ms > 100, f"{request} is overdue"
            check_invariants(purgatory)
        purgatory.close()
        assert [request.ended for request in self.requests] == [1] * len(self.requests)
        assert self.new.ended <= 1
        assert self.new._timer_list is None
        assert (purgatory.num_delayed, purgatory.watched) == (0, 0)
        await asyncio.sleep(0)
        for index, answer in enumerate(self.answers):
            assert answer.done(), f"answer {index} is missing"
            if not answer.cancelled():
                answer.exception()

    def check_row(self, failed: bool) -> None:
        """Check that all is ended; of the callbacks and answers some have found no memory."""
        asyncio.events._set_running_loop(None)
        self.loop.run_until_complete(self._check_row())
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _check_row(self) -> None:
        purgatory = self.purgatory
        if not purgatory.is_closed:
            further = Counted(1_000)
            future = purgatory.wait(further, ["z"])
            further.ready = True
            purgatory.notify("z")
            assert await future == "completed"
            await asyncio.sleep(0.1)
            assert purgatory._core is not None
            for request in self.requests:
                assert request.is_completed or request.timeout_ms > 100, f"{request} is overdue"
            check_invariants(purgatory._core)
        purgatory.close()
        assert all(request.is_completed for request in self.requests)
        assert all(request.ended <= 1 for request in [*self.requests, self.new])
        assert (purgatory.num_delayed, purgatory.watched) == (0, 0)

    def referents(self) -> list[weakref.ref[Any]]:
        return [weakref.ref(self.purgatory), weakref.ref(self.loop)]


def hold_new(scene: LoopScene) -> None:
    scene.answers.append(scene.purgatory.hold(["h", "new"], until=bool, timeout=0.003))


def wait_new(scene: LoopScene) -> None:
    scene.answers.append(scene.purgatory.wait(scene.new, ["a", "new"]))


def gather(scene: LoopScene) -> None:
    scene.answers.append(scene.purgatory.gather(scene.parts, timeout=0.003))


def expire(scene: LoopScene) -> None:
    scene.loop.pass_time(0.05)
    scene.purgatory._alarm.ring()


CALLS: dict[str, Callable[[LoopScene], object]] = {
    "hold": hold_new,
    "wait": wait_new,
    "gather": gather,
    "watch": lambda scene: scene.purgatory.try_complete_else_watch(scene.new, ["a", "m"]),
    "renew": lambda scene: scene.purgatory.renew(scene.requests[4], 0.004),
    "notify": lambda scene: scene.purgatory.notify("a"),
    "notify_many": lambda scene: scene.purgatory.notify_many(["a", "b", "h"]),
    "notify_threadsafe": lambda scene: scene.purgatory.notify_threadsafe("h"),
    "check_and_complete": lambda scene: scene.purgatory.check_and_complete("a"),
    "cancel_for_key": lambda scene: scene.purgatory.cancel_for_key("a"),
    "force_complete": lambda scene: scene.requests[1].force_complete(),
    "cancel": lambda scene: scene.requests[1].cancel(),
    "cancel_future": lambda scene: scene.answers[4].cancel(),
    "alarm": expire,
    "look": lambda scene: (
        scene.purgatory.metrics(),
        scene.purgatory.watched,
        repr(scene.purgatory),
    ),
    "close": lambda scene: scene.purgatory.close(),
}

LOOPS = {"heap": VirtualLoop, "wheel": VirtualWheelLoop}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("call", CALLS)
def test_call_on_a_loop_fails_alone(call: str, loop: str) -> None:
    fails_each(lambda: LoopScene(LOOPS[loop], CALLS[call]))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("call", CALLS)
def test_call_on_a_loop_ends_all_without_memory_to_go_on(call: str, loop: str) -> None:
    fails_in_a_row(lambda: LoopScene(LOOPS[loop], CALLS[call]))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is that of Linux")
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("call", CALLS)
def test_call_on_a_loop_fails_alone_at_the_limit(call: str, loop: str) -> None:
    fails_at_the_limit(lambda: LoopScene(LOOPS[loop], CALLS[call]))


def test_cancellation_of_a_future_without_memory_is_made_whole_or_not_at_all() -> None:
    import _testcapi

    async def scenario() -> None:
        failed = 0
        async with Purgatory("test") as purgatory:
            for number in range(30):
                answer = purgatory.hold(["h"], until=bool)
                answer.add_done_callback(id)
                _testcapi.set_nomemory(number, number + 1)
                try:
                    answer.cancel()
                except MemoryError:
                    failed += 1
                finally:
                    _testcapi.remove_mem_hooks()
                assert answer.cancelled() is (purgatory.num_delayed == 0)
                answer.cancel()
        assert failed

    asyncio.run(scenario())
