"""How late timers run, with real clocks.

`count` timers of 200 ms are set one by one over a second. Each callback records the clock's
distance from the time of its setting plus 200 ms; the smallest one is negative if a timer was
early. `load` is `idle`; `busy_thread`, with a second thread of the process that runs Python code
without a pause; or `pending`, with 100,000 background timers of 10 to 30 minutes.

Our side is a purgatory with its reaper, whose operations expire (`on_expiration`). A task of the
same loop sets the timers of asyncio, uvloop and trio; trio's are tasks that sleep in
`move_on_after`. The harness of Kafka and Netty has the idle case only.
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
from benchmarks.delays import pending_ms, to_seconds
from benchmarks.peers import no_op
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
_BACKGROUND_TIMERS = 100_000
_END_TIMEOUT_S = 30.0


def cases(quick: bool) -> list[Case]:
    """Return a case for each load; `size` is the load's position in the list."""
    count = 200 if quick else 1_000
    return [
        Case(
            {"load": load, "count": count},
            place,
            JvmCall(QUESTION, {"count": count, "timeout_ms": _TIMEOUT_MS}),
        )
        for place, load in enumerate(_LOADS)
    ]


def skip_reason(side: str, case: Case) -> str | None:
    """Return a reason for the JVM under load and for 100,000 threads."""
    if side in peers.JVM and case.params["load"] != "idle":
        return "the harness has the idle case only"
    if side == peers.THREADING and case.params["load"] == "pending":
        return peers.TOO_MANY_THREADS
    return None


@dataclass(frozen=True)
class _Plan:
    """The timers to set.

    Attributes:
        count: The number of timers that are measured.
        timeout_ms: The delay of each of them.
        spread_ms: The time over which they are set.
        background: Delays of the timers that are pending meanwhile, in seconds.
    """

    count: int
    timeout_ms: int
    spread_ms: int
    background: list[float]

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1000

    def due_ns(self) -> int:
        """Return the time at which a timer that is set now is due."""
        return monotonic_ns() + self.timeout_ms * 1_000_000


def measure(
    side: str,
    load: str,
    count: int,
    timeout_ms: int = _TIMEOUT_MS,
    spread_ms: int = _SPREAD_MS,
    background: int = _BACKGROUND_TIMERS,
) -> dict[str, float]:
    """Measure each timer's lateness.

    Args:
        side: One of `SIDES`.
        load: The load, as above.
        count: The number of timers that are measured.
        timeout_ms: The delay of each of them.
        spread_ms: The time over which they are set.
        background: The number of background timers of `load=pending`.

    Returns:
        All metrics.

    Raises:
        RuntimeError: A timer did not run.
    """
    delays = to_seconds(pending_ms(background, shortest_ms=600_000)) if load == "pending" else []
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


class _Schedule:
    """The times at which the timers are set, evenly spread."""

    def __init__(self, plan: _Plan) -> None:
        gc.collect()
        self._start = time.monotonic()
        self._gap = plan.spread_ms / 1000 / plan.count

    def seconds_until(self, number: int) -> float:
        """Return the seconds until timer `number` is to be set."""
        return max(0.0, self._start + number * self._gap - time.monotonic())


class _Lateness:
    """The recorded lateness of the timers; `done` is set by the last one."""

    def __init__(self, count: int) -> None:
        self.ns: list[int] = []
        self._count = count
        self.done = threading.Event()

    def record(self, due_ns: int) -> None:
        """Record a timer that was due at `due_ns` and runs now."""
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
        self.lateness.record(self.due_ns)


def _purgatory(plan: _Plan) -> list[int]:
    lateness = _Lateness(plan.count)
    with DelayedOperationPurgatory("benchmark") as purgatory:
        for number, delay in enumerate(plan.background):
            purgatory.try_complete_else_watch(_Expiring(round(delay * 1000)), [number])
        schedule = _Schedule(plan)
        for number in range(plan.count):
            time.sleep(schedule.seconds_until(number))
            operation = _Expiring(plan.timeout_ms)
            operation.lateness = lateness
            operation.due_ns = plan.due_ns()
            purgatory.try_complete_else_watch(operation, [-number - 1])
        lateness.done.wait(_END_TIMEOUT_S)
    return lateness.ns


def _event_loop(side: str) -> Callable[[_Plan], list[int]]:
    def measured(plan: _Plan) -> list[int]:
        lateness = _Lateness(plan.count)

        async def set_all() -> None:
            for delay in plan.background:
                loop.call_later(delay, no_op)
            schedule = _Schedule(plan)
            for number in range(plan.count):
                await asyncio.sleep(schedule.seconds_until(number))
                due_ns = plan.due_ns()
                loop.call_later(plan.timeout_s, lateness.record, due_ns)
            end = time.monotonic() + _END_TIMEOUT_S
            while not lateness.done.is_set() and time.monotonic() < end:
                await asyncio.sleep(plan.timeout_s / 2)

        with closing(peers.open_loop(side)) as loop:
            loop.run_until_complete(set_all())
        return lateness.ns

    return measured


def _trio(plan: _Plan) -> list[int]:
    import trio  # Optional.

    lateness = _Lateness(plan.count)

    async def expire(due_ns: int) -> None:
        with trio.move_on_after((due_ns - monotonic_ns()) / 1e9):
            await trio.sleep_forever()
        lateness.record(due_ns)

    async def set_all() -> None:
        opened = [trio.move_on_after(delay) for delay in plan.background]
        for scope in opened:
            scope.__enter__()
        schedule = _Schedule(plan)
        async with trio.open_nursery() as nursery:
            for number in range(plan.count):
                await trio.sleep(schedule.seconds_until(number))
                nursery.start_soon(expire, plan.due_ns())
        for scope in reversed(opened):
            scope.__exit__(None, None, None)

    trio.run(set_all)
    return lateness.ns


def _threading(plan: _Plan) -> list[int]:
    # There are no background timers: that many threads are skipped.
    lateness = _Lateness(plan.count)
    with peers.cancel_started_timers():
        schedule = _Schedule(plan)
        for number in range(plan.count):
            time.sleep(schedule.seconds_until(number))
            threading.Timer(plan.timeout_s, lateness.record, [plan.due_ns()]).start()
        lateness.done.wait(_END_TIMEOUT_S)
    return lateness.ns


_BY_SIDE: dict[str, Callable[[_Plan], list[int]]] = {
    peers.OURS: _purgatory,
    peers.ASYNCIO: _event_loop(peers.ASYNCIO),
    peers.UVLOOP: _event_loop(peers.UVLOOP),
    peers.TRIO: _trio,
    peers.THREADING: _threading,
}
