"""What scenarios on an event loop are made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from request_purgatory.aio import Purgatory
from tests.support.invariants import check_invariants

#: Runs a scenario on a loop: the fixture `play`.
Scenario = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


class Condition:
    """A condition that the test switches, and counts its looks."""

    def __init__(self, value: object = None) -> None:
        self.value = value
        self.looks = 0

    def __call__(self) -> object:
        self.looks += 1
        return self.value


async def turns(count: int = 3) -> None:
    """Give the loop its turn."""
    for _ in range(count):
        await asyncio.sleep(0)


def now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[Purgatory]:
    """Open a purgatory whose invariants are checked before and after its end.

    Nothing that it has the loop call may raise: the loop would log it, and the test pass.
    """
    raised: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(
        lambda loop, context: raised.append(context["exception"]) if "handle" in context else None
    )
    async with Purgatory("test", **options) as purgatory:
        yield purgatory
        check_invariants(purgatory)
    assert (purgatory.num_delayed, purgatory.watched, purgatory._alarm.handle) == (0, 0, None)
    check_invariants(purgatory)
    loop.set_exception_handler(None)
    assert raised == []
