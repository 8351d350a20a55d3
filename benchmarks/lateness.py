"""How late timers run, with real clocks.

`count` timers of 200 ms are set over a second, one by one; each notes how far the clock is past the
moment of its setting plus 200 ms when its callback is called (the least of them is negative if a
timer was early). `load` is `idle`; `busy_thread`, a second thread of the process that runs Python
code without a pause; or `pending`, with 100,000 further timers, of 10 to 30 minutes. Ours is a
purgatory with its reaper, whose operations expire (`on_expiration`); the timers of asyncio, uvloop
and trio are set by a task of the same loop; trio's are tasks that sleep in `move_on_after`. Kafka's
and Netty's harness has the idle case only.
"""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from time import monotonic_ns

from benchmarks import peers
from benchmarks.delays import pending_ms, seconds
from benchmarks.peers import nothing
from benchmarks.question import Case, JvmCall
from request_purgatory import DelayedOperation, DelayedOperationPurgatory

QUESTION = "lateness"
METRICS = {
    "lateness_mean_ms": "ms",
    "lateness_p99_ms": "ms",
    "lateness_max_ms": "ms",
    "lateness_min_ms": "ms",
}
SIDES = (
    peers.OURS,
    peers.ASYNCIO,
    peers.UVLOOP,
    peers.TRIO,
    peers.THREADING,
    peers.KAFKA,
    peers.NETTY,
)

_TIMEOUT_MS = 200
_SPREAD_MS = 1_000
_LOADS = ("idle", "busy_thread", "pending")
_FURTHER_PENDING = 100_000
_LAST_WAIT_S = 30.0


def cases(quick: bool) -> list[Case]:
    """Each load; a number on the axis for its place in the list."""
    count = 200 if quick else 1_000
    return [
        Case(
            {"load": load, "count": count},
            place,
            JvmCall(QUESTION, {"count": count, "timeout_ms": _TIMEOUT_MS}),
        )
        for place, load in enumerate(_LOADS)
    ]


def left_out(side: str, case: Case) -> str | None:
    """The JVM under load, and a thread for each of 100,000."""
    if side in peers.JVM and case.params["load"] != "idle":
        return "the harness has the idle case only"
    if side == peers.THREADING and case.params["load"] == "pending":
        return peers.TOO_MANY_THREADS
    return None


@dataclass(frozen=True)
class _Plan:
    """What is to be set.

    Attributes:
        count: How many timers are timed.
        timeout_ms: Delay of each of them, ms.
        spread_ms: Time over which they are set, ms.
        further: Delays of the timers that are pending all the while, seconds.
    """

    count: int
    timeout_ms: int
    spread_ms: int
    further: list[float]

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1000

    def due_ns(self) -> int:
        """When a timer is due that is set now."""
        return monotonic_ns() + self.timeout_ms * 1_000_000


def measure(
    side: str,
    load: str,
    count: int,
    timeout_ms: int = _TIMEOUT_MS,
    spread_ms: int = _SPREAD_MS,
    further: int = _FURTHER_PENDING,
) -> dict[str, float]:
    """Time each timer's lateness.

    Args:
        side: One of `SIDES`.
        load: What else the process does, as above.
        count: How many timers are timed.
        timeout_ms: Delay of each of them, ms.
        spread_ms: Time over which they are set, ms.
        further: How many timers `load=pending` adds.

    Returns:
        All metrics.

    Raises:
        RuntimeError: Not every timer ran.
    """
    delays = seconds(pending_ms(further, shortest_ms=600_000)) if load == "pending" else []
    plan = _Plan(count, timeout_ms, spread_ms, delays)
    with _busy_thread() if load == "busy_thread" else nullcontext():
        late_ns = sorted(_BY_SIDE[side](plan))
    if len(late_ns) != count:
        raise RuntimeError(f"{len(late_ns)} of {count} timers ran")
    return {
        "lateness_mean_ms": sum(late_ns) / count / 1e6,
        "lateness_p99_ms": late_ns[math.ceil(0.99 * count) - 1] / 1e6,
        "lateness_max_ms": late_ns[-1] / 1e6,
        "lateness_min_ms": late_ns[0] / 1e6,
    }


@contextmanager
def _busy_thread() -> Iterator[None]:
    """Run Python code in a second thread while the block runs."""
    stopped = False

    def spin() -> None:
        while not stopped:
            pass

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped = True
        thread.join()


class _Setting:
    """When to set each timer: evenly over the plan's time."""

    def __init__(self, plan: _Plan) -> None:
        gc.collect()
        self._start = time.monotonic()
        self._gap = plan.spread_ms / 1000 / plan.count

    def pause(self, number: int) -> float:
        """Seconds until it is the turn of that timer."""
        return max(0.0, self._start + number * self._gap - time.monotonic())


class _Lateness:
    """What the timers note; `done` is set by the last one."""

    def __init__(self, count: int) -> None:
        self.ns: list[int] = []
        self._count = count
        self.done = threading.Event()

    def note(self, due_ns: int) -> None:
        """Called by a timer that was due then."""
        self.ns.append(monotonic_ns() - due_ns)
        if len(self.ns) == self._count:
            self.done.set()


class _Expiring(DelayedOperation):
    __slots__ = ("due_ns", "lateness")

    due_ns: int
    lateness: _Lateness

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        pass

    def on_expiration(self) -> None:
        self.lateness.note(self.due_ns)


def _purgatory(plan: _Plan) -> list[int]:
    lateness = _Lateness(plan.count)
    with DelayedOperationPurgatory("benchmark") as purgatory:
        for number, delay in enumerate(plan.further):
            purgatory.try_complete_else_watch(_Expiring(round(delay * 1000)), [number])
        setting = _Setting(plan)
        for number in range(plan.count):
            time.sleep(setting.pause(number))
            operation = _Expiring(plan.timeout_ms)
            operation.lateness = lateness
            operation.due_ns = plan.due_ns()
            purgatory.try_complete_else_watch(operation, [-number - 1])
        lateness.done.wait(_LAST_WAIT_S)
    return lateness.ns


def _event_loop(side: str) -> Callable[[_Plan], list[int]]:
    def measured(plan: _Plan) -> list[int]:
        lateness = _Lateness(plan.count)

        async def set_all() -> None:
            for delay in plan.further:
                loop.call_later(delay, nothing)
            setting = _Setting(plan)
            for number in range(plan.count):
                await asyncio.sleep(setting.pause(number))
                due_ns = plan.due_ns()
                loop.call_later(plan.timeout_s, lateness.note, due_ns)
            give_up = time.monotonic() + _LAST_WAIT_S
            while not lateness.done.is_set() and time.monotonic() < give_up:
                await asyncio.sleep(plan.timeout_s / 2)

        with closing(peers.open_loop(side)) as loop:
            loop.run_until_complete(set_all())
        return lateness.ns

    return measured


def _trio(plan: _Plan) -> list[int]:
    import trio  # Not everywhere to be had.

    lateness = _Lateness(plan.count)

    async def expire(due_ns: int) -> None:
        with trio.move_on_after((due_ns - monotonic_ns()) / 1e9):
            await trio.sleep_forever()
        lateness.note(due_ns)

    async def set_all() -> None:
        opened = [trio.move_on_after(delay) for delay in plan.further]
        for scope in opened:
            scope.__enter__()
        setting = _Setting(plan)
        async with trio.open_nursery() as nursery:
            for number in range(plan.count):
                await trio.sleep(setting.pause(number))
                nursery.start_soon(expire, plan.due_ns())
        for scope in reversed(opened):
            scope.__exit__(None, None, None)

    trio.run(set_all)
    return lateness.ns


def _threading(plan: _Plan) -> list[int]:
    # The plan's further timers are none: so many threads are left out.
    lateness = _Lateness(plan.count)
    with peers.ended_timers():
        setting = _Setting(plan)
        for number in range(plan.count):
            time.sleep(setting.pause(number))
            threading.Timer(plan.timeout_s, lateness.note, [plan.due_ns()]).start()
        lateness.done.wait(_LAST_WAIT_S)
    return lateness.ns


_BY_SIDE: dict[str, Callable[[_Plan], list[int]]] = {
    peers.OURS: _purgatory,
    peers.ASYNCIO: _event_loop(peers.ASYNCIO),
    peers.UVLOOP: _event_loop(peers.UVLOOP),
    peers.TRIO: _trio,
    peers.THREADING: _threading,
}
