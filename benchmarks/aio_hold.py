"""Waiters on an event loop: 100,000 tasks that each wait for a condition with a timeout, and how they end.

On the standard loop. Ours holds a future for each waiter, which is pending by itself, or awaits it
in a task for each (`in tasks`); the peers need the task: `asyncio.wait_for(event.wait(), ...)` with
an `asyncio.Event` each, and `asyncio.wait_for` of `asyncio.Condition.wait_for` on one condition for
each hundred waiters. First all come to wait (`add_per_second`); then all complete, each by its own
key or event (the Condition by `notify_all` for each hundred); or all run into one deadline, and are
timed from when it has passed; or all are cancelled (`end_per_second`). `per_second` is of the
whole: waiters over the sum of both times. `bytes_per_waiter` is the growth of the process's
resident memory while they wait, the task included.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from time import perf_counter

from benchmarks import peers
from benchmarks.memory import resident_bytes
from benchmarks.question import Case
from benchmarks.stopwatch import settled_ns
from request_purgatory.aio import Purgatory

QUESTION = "aio_hold"
METRICS = {
    "per_second": "1/s",
    "add_per_second": "1/s",
    "end_per_second": "1/s",
    "bytes_per_waiter": "bytes",
}
SIDES = (peers.OURS, peers.OURS_TASKS, peers.WAIT_FOR, peers.CONDITION)

_LONG = 3_600.0
_GROUP = 100

#: Begins to wait, by the waiter's number and its deadline on the loop's clock.
_Wait = Callable[[int, float], asyncio.Future[object]]
#: Makes the conditions of so many waiters come true.
_Complete = Callable[[], None]


def cases(quick: bool) -> list[Case]:
    """The three ways to end."""
    count = 2_000 if quick else 100_000
    return [
        Case({"what": what, "count": count}, count) for what in ("complete", "expire", "cancel")
    ]


def left_out(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """None."""
    return None


def measure(side: str, what: str, count: int) -> dict[str, float]:
    """Rates and memory; RuntimeError if a waiter did not end as it should."""
    return asyncio.run(_SIDES[side](what, count))


async def _ours(what: str, count: int, in_tasks: bool = False) -> dict[str, float]:
    async with Purgatory("benchmark", batch=count) as purgatory:
        loop = asyncio.get_running_loop()
        ready: set[int] = set()

        def hold(number: int, deadline: float) -> asyncio.Future[object]:
            return purgatory.hold(
                [number], until=lambda: number in ready, timeout=deadline - loop.time()
            )

        async def wait(number: int, deadline: float) -> object:
            return await hold(number, deadline)

        def complete() -> None:
            for number in range(count):
                ready.add(number)
                purgatory.notify(number)

        return await _time(what, count, _task_of(wait) if in_tasks else hold, complete)


async def _ours_in_tasks(what: str, count: int) -> dict[str, float]:
    return await _ours(what, count, in_tasks=True)


def _task_of(wait: Callable[[int, float], Coroutine[object, object, object]]) -> _Wait:
    return lambda number, deadline: asyncio.create_task(wait(number, deadline))


async def _wait_for(what: str, count: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    events = [asyncio.Event() for _ in range(count)]

    async def wait(number: int, deadline: float) -> object:
        return await asyncio.wait_for(events[number].wait(), deadline - loop.time())

    def complete() -> None:
        for event in events:
            event.set()

    return await _time(what, count, _task_of(wait), complete)


async def _condition(what: str, count: int) -> dict[str, float]:
    conditions = [asyncio.Condition() for _ in range((count + _GROUP - 1) // _GROUP)]
    loop = asyncio.get_running_loop()
    ready = False

    async def wait(number: int, deadline: float) -> object:
        condition = conditions[number // _GROUP]
        async with condition:
            return await asyncio.wait_for(condition.wait_for(lambda: ready), deadline - loop.time())

    async def notify_all() -> None:
        for condition in conditions:
            async with condition:
                condition.notify_all()

    notifiers: list[asyncio.Task[None]] = []

    def complete() -> None:
        nonlocal ready
        ready = True
        notifiers.append(asyncio.create_task(notify_all()))

    return await _time(what, count, _task_of(wait), complete)


async def _time(what: str, count: int, wait: _Wait, complete: _Complete) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    before = resident_bytes()
    settled_ns()
    began = perf_counter()
    # All come to wait well before the timeout, which has to be known before how long that takes is.
    deadline = loop.time() + (_LONG if what != "expire" else 0.3 + count / 5_000)
    waiters = [wait(number, deadline) for number in range(count)]
    for _ in range(3):
        await asyncio.sleep(0)  # Tasks begin, and tasks in tasks.
    added = perf_counter() - began
    grown = resident_bytes() - before
    if what == "expire":
        if loop.time() >= deadline:
            raise RuntimeError(
                f"{count} waiters came {loop.time() - deadline:.1f} s after their deadline"
            )
        # Not the loop's sleep: when it looks again, all are due, and it has nothing to do but that.
        time.sleep(deadline - loop.time() + 0.002)
    settled_ns()
    began = perf_counter()
    if what == "complete":
        complete()
    elif what == "cancel":
        for waiter in waiters:
            waiter.cancel()
    ended = [await _end_of(waiter) for waiter in waiters]
    elapsed = perf_counter() - began
    if set(ended) != {what}:
        raise RuntimeError(
            f"of {count} waiters that should {what}, {count - ended.count(what)} did not"
        )
    return {
        "per_second": count / (added + elapsed),
        "add_per_second": count / added,
        "end_per_second": count / elapsed,
        "bytes_per_waiter": grown / count,
    }


async def _end_of(waiter: asyncio.Future[object]) -> str:
    try:
        return "complete" if await waiter else "was false"
    except TimeoutError:
        return "expire"
    except asyncio.CancelledError:
        return "cancel"


_SIDES = {
    peers.OURS: _ours,
    peers.OURS_TASKS: _ours_in_tasks,
    peers.WAIT_FOR: _wait_for,
    peers.CONDITION: _condition,
}
