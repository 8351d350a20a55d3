"""How late timers run, with real clocks.

`count` timers of 200 ms are set over a second, one by one; each notes how far the clock is past the moment of its setting plus
200 ms when its callback is called (the least of them is negative if a timer was early). `load` is `idle`; `busy_thread`, a second
thread of the process that runs Python code without a pause; or `pending`, with 100,000 further timers, of 10 to 30 minutes. Ours
is a purgatory with its reaper, whose operations expire (`on_expiration`); the timers of asyncio, uvloop and trio are set by a
task of the same loop; trio's are tasks that sleep in `move_on_after`. Kafka's and Netty's harness has the idle case only.
"""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
from collections.abc import Callable
from time import monotonic_ns

from benchmarks import peers
from benchmarks.delays import pending_ms, seconds
from benchmarks.peers import nothing
from benchmarks.question import Case, JvmCall
from request_purgatory import DelayedOperation, DelayedOperationPurgatory

QUESTION = "lateness"
METRICS = {"lateness_mean_ms": "ms", "lateness_p99_ms": "ms", "lateness_max_ms": "ms", "lateness_min_ms": "ms"}
SIDES = (peers.OURS, peers.ASYNCIO, peers.UVLOOP, peers.TRIO, peers.THREADING, peers.KAFKA, peers.NETTY)

_TIMEOUT_MS = 200
_TIMEOUT_S = _TIMEOUT_MS / 1000
_TIMEOUT_NS = _TIMEOUT_MS * 1_000_000
_LOADS = ("idle", "busy_thread", "pending")
_FURTHER_PENDING = 100_000
_LAST_WAIT_S = 30.0


def cases(quick: bool) -> list[Case]:
    """Each load; a number on the axis for its place in the list."""
    count = 200 if quick else 1_000
    return [
        Case({"load": load, "count": count}, place, JvmCall(QUESTION, {"count": count, "timeout_ms": _TIMEOUT_MS}))
        for place, load in enumerate(_LOADS)
    ]


def left_out(side: str, case: Case) -> str | None:
    """The JVM under load, and a thread for each of 100,000."""
    if side in peers.JVM and case.params["load"] != "idle":
        return "the harness has the idle case only"
    if side == peers.THREADING and case.params["load"] == "pending":
        return peers.TOO_MANY_THREADS
    return None


def measure(side: str, load: str, count: int) -> dict[str, float]:
    """All metrics; RuntimeError if not every timer ran."""
    further = seconds(pending_ms(_FURTHER_PENDING, shortest_ms=600_000)) if load == "pending" else []
    if load == "busy_thread":
        threading.Thread(target=_spin, daemon=True).start()
    late_ns = sorted(_BY_SIDE[side](count, further))
    if len(late_ns) != count:
        raise RuntimeError(f"{len(late_ns)} of {count} timers ran")
    return {
        "lateness_mean_ms": sum(late_ns) / count / 1e6,
        "lateness_p99_ms": late_ns[math.ceil(0.99 * count) - 1] / 1e6,
        "lateness_max_ms": late_ns[-1] / 1e6,
        "lateness_min_ms": late_ns[0] / 1e6,
    }


def _spin() -> None:
    while True:
        pass


def _due_ns() -> int:
    return monotonic_ns() + _TIMEOUT_NS


class _Setting:
    """When to set each timer: evenly over a second."""

    def __init__(self, count: int) -> None:
        gc.collect()
        self._start = time.monotonic()
        self._gap = 1 / count

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


def _purgatory(count: int, further: list[float]) -> list[int]:
    lateness = _Lateness(count)
    with DelayedOperationPurgatory("benchmark") as purgatory:
        for number, delay in enumerate(further):
            purgatory.try_complete_else_watch(_Expiring(round(delay * 1000)), [number])
        setting = _Setting(count)
        for number in range(count):
            time.sleep(setting.pause(number))
            operation = _Expiring(_TIMEOUT_MS)
            operation.lateness = lateness
            operation.due_ns = _due_ns()
            purgatory.try_complete_else_watch(operation, [-number - 1])
        lateness.done.wait(_LAST_WAIT_S)
    return lateness.ns


def _event_loop(side: str) -> Callable[[int, list[float]], list[int]]:
    def measured(count: int, further: list[float]) -> list[int]:
        loop = peers.open_loop(side)
        lateness = _Lateness(count)

        async def set_all() -> None:
            for delay in further:
                loop.call_later(delay, nothing)
            setting = _Setting(count)
            for number in range(count):
                await asyncio.sleep(setting.pause(number))
                due_ns = _due_ns()
                loop.call_later(_TIMEOUT_S, lateness.note, due_ns)
            give_up = time.monotonic() + _LAST_WAIT_S
            while not lateness.done.is_set() and time.monotonic() < give_up:
                await asyncio.sleep(0.1)

        loop.run_until_complete(set_all())
        return lateness.ns

    return measured


def _trio(count: int, further: list[float]) -> list[int]:
    import trio  # Not everywhere to be had.

    lateness = _Lateness(count)

    async def expire(due_ns: int) -> None:
        with trio.move_on_after(_TIMEOUT_S - (monotonic_ns() - due_ns + _TIMEOUT_NS) / 1e9):
            await trio.sleep_forever()
        lateness.note(due_ns)

    async def set_all() -> None:
        opened = [trio.move_on_after(delay) for delay in further]
        for scope in opened:
            scope.__enter__()
        setting = _Setting(count)
        async with trio.open_nursery() as nursery:
            for number in range(count):
                await trio.sleep(setting.pause(number))
                nursery.start_soon(expire, _due_ns())
        for scope in reversed(opened):
            scope.__exit__(None, None, None)

    trio.run(set_all)
    return lateness.ns


def _threading(count: int, further: list[float]) -> list[int]:
    del further  # Left out above so many threads.
    lateness = _Lateness(count)
    setting = _Setting(count)
    for number in range(count):
        time.sleep(setting.pause(number))
        threading.Timer(_TIMEOUT_S, lateness.note, [_due_ns()]).start()
    lateness.done.wait(_LAST_WAIT_S)
    return lateness.ns


_BY_SIDE: dict[str, Callable[[int, list[float]], list[int]]] = {
    peers.OURS: _purgatory,
    peers.ASYNCIO: _event_loop(peers.ASYNCIO),
    peers.UVLOOP: _event_loop(peers.UVLOOP),
    peers.TRIO: _trio,
    peers.THREADING: _threading,
}
