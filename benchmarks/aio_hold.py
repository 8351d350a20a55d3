"""Waiters on an event loop that wait for a condition with a timeout, and how they end.

The waiters are on the standard loop. Our `hold` returns a future for each waiter, which is pending
by itself; `in tasks` awaits the future in a task for each waiter. The peers need the task:
`asyncio.wait_for(event.wait(), ...)` with an `asyncio.Event` each, and `asyncio.wait_for` of
`asyncio.Condition.wait_for` with one condition for each hundred waiters.

First all waiters are added (`add_per_second`). Then all of them end (`end_per_second`) in one of
three ways. They complete, each by its own key or event (the Condition by `notify_all` for each
hundred). Or they reach a common deadline, and the time is measured from that deadline. Or they are
cancelled. `per_second` is the number of waiters over the sum of both times. `bytes_per_waiter` is
the growth of the process's resident memory while they wait, including the task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from time import perf_counter

from benchmarks import peers
from benchmarks.memory import resident_bytes
from benchmarks.question import Case
from benchmarks.stopwatch import ns_after_gc
from request_purgatory.aio import Purgatory

QUESTION = "aio_hold"
METRICS = {
    "per_second": "1/s",
    "add_per_second": "1/s",
    "end_per_second": "1/s",
    "bytes_per_waiter": "bytes",
}
SIDES = (peers.OURS, peers.OURS_TASKS, peers.WAIT_FOR, peers.CONDITION)

_LONG_TIMEOUT_S = 3_600.0
_WAITERS_PER_CONDITION = 100

#: Starts waiter `number`, with its deadline on the loop's clock.
_Wait = Callable[[int, float], asyncio.Future[object]]
#: Makes the conditions of all waiters true.
_Complete = Callable[[], None]


def cases(quick: bool) -> list[Case]:
    """Return a case for each way to end."""
    count = 2_000 if quick else 100_000
    return [
        Case({"what": what, "count": count}, count) for what in ("complete", "expire", "cancel")
    ]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: every side runs every case."""
    return None


def measure(side: str, what: str, count: int) -> dict[str, float]:
    """Measure rates and memory.

    Raises:
        RuntimeError: A waiter did not end as intended.
    """
    return asyncio.run(_BY_SIDE[side](what, count))


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

        return await _measure(what, count, _task_of(wait) if in_tasks else hold, complete)


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

    return await _measure(what, count, _task_of(wait), complete)


async def _condition(what: str, count: int) -> dict[str, float]:
    conditions = [
        asyncio.Condition()
        for _ in range((count + _WAITERS_PER_CONDITION - 1) // _WAITERS_PER_CONDITION)
    ]
    loop = asyncio.get_running_loop()
    ready = False

    async def wait(number: int, deadline: float) -> object:
        condition = conditions[number // _WAITERS_PER_CONDITION]
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

    return await _measure(what, count, _task_of(wait), complete)


async def _measure(what: str, count: int, wait: _Wait, complete: _Complete) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    before = resident_bytes()
    ns_after_gc()
    began = perf_counter()
    # The deadline must be set before the first waiter is added, and be later than the last one.
    deadline = loop.time() + (_LONG_TIMEOUT_S if what != "expire" else 1 + count / 5_000)
    waiters = [wait(number, deadline) for number in range(count)]
    for _ in range(3):
        await asyncio.sleep(0)  # Let tasks start, and the tasks that they create.
    added = perf_counter() - began
    grown = resident_bytes() - before
    if what == "expire":
        if loop.time() >= deadline:
            raise RuntimeError(
                f"adding {count} waiters ended {loop.time() - deadline:.1f} s after their deadline"
            )
        # A blocking sleep: when the loop runs again, all waiters are due at once.
        time.sleep(deadline - loop.time() + 0.002)
    ns_after_gc()
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


_BY_SIDE = {
    peers.OURS: _ours,
    peers.OURS_TASKS: _ours_in_tasks,
    peers.WAIT_FOR: _wait_for,
    peers.CONDITION: _condition,
}
