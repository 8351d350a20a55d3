"""What is called in wrong ways: each public object of the core, and what its parts are."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from opentelemetry.metrics import NoOpMeter
from opentelemetry.trace import NoOpTracer

import request_purgatory
from request_purgatory import aio, clock, errors, metrics, snapshot, testing, timer, tracing
from request_purgatory._native.parker import Parker
from request_purgatory.legacy import LegacyPurgatory
from request_purgatory.metrics import _process_metrics as process_metrics
from request_purgatory.metrics import opentelemetry, prometheus
from request_purgatory.purgatory.quorum import Quorum
from tests.support.invariants import check_invariants
from tests.support.requests import Request

Callback = Callable[..., None]


def ignore(*_: object) -> None:
    """Do nothing, as a callback."""


class Task(request_purgatory.TimerTask):
    """A task that counts its runs."""

    def __init__(self, delay_ms: int = 1000) -> None:
        super().__init__(delay_ms)
        self.runs = 0

    def run(self) -> None:
        self.runs += 1


class World:
    """What surrounds a call: a timer and purgatories, with something pending in each."""

    def __init__(self) -> None:
        self.clock = request_purgatory.ManualClock()
        self.timer = request_purgatory.SystemTimer("misused", wheel_size=20, clock=self.clock)
        self.task = Task()
        self.timer.add(self.task)
        self.timer.wake()  # A wait without a limit ends at once.
        self.purgatory = testing.ManualPurgatory("misused", shards=4)
        self.purgatory.timer.wake()
        self.legacy = LegacyPurgatory("old", clock=self.clock, reaper=False)
        self.legacy.timer.wake()
        self.request = self.pending_in(self.purgatory)
        self.old_request = self.pending_in(self.legacy)
        self.held: Any = self.purgatory.hold(["held"], until=lambda: False)

    def pending_in(self, purgatory: Any) -> Request:
        """Return a request that is pending under the key "a"."""
        request = Request()
        purgatory.try_complete_else_watch(request, ["a"])
        return request

    def new_future(self) -> Any:
        """Return a future that has not ended."""
        return Future()

    def check(self) -> None:
        """Assert that nothing was lost: what was pending is pending, or has ended once."""
        check_invariants(self.timer)
        was_pending = self.task._timer_list is not None
        assert (self.task in self.timer.shutdown()) == was_pending, "the timer lost its task"
        assert self.task.runs <= (not was_pending), "the task ran and is pending"
        assert self.timer.size == 0, "the timer holds something after its end"
        for purgatory, request in (
            (self.purgatory, self.request),
            (self.legacy, self.old_request),
        ):
            check_purgatory(purgatory, request)
        assert self.held.done(), "a held request was lost"


def check_purgatory(purgatory: Any, request: Request) -> None:
    """Assert that a purgatory is in order, and that its request ends exactly once."""
    check_invariants(purgatory)
    if not request.is_completed:
        assert purgatory.num_delayed > 0, "a pending request is not counted"
        assert request.calls == [], "a pending request has been answered"
    purgatory.close()
    assert purgatory.num_delayed == 0, "the purgatory holds something after its end"
    assert request.is_completed, "a request is pending after the end"
    assert request.calls in (["cancellation"], ["complete"], ["complete", "expiration"]), (
        f"a request was answered by {request.calls}"
    )


class LoopWorld(World):
    """A world on an event loop, with a purgatory of that loop."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.on_loop = aio.Purgatory("misused")

    async def enter(self) -> None:
        """Enter the block of the loop's purgatory."""
        await self.on_loop.__aenter__()
        self.loop_request = self.pending_in(self.on_loop)
        self.loop_held: Any = self.on_loop.hold(["held"], until=lambda: False)

    def new_future(self) -> Any:
        return self.loop.create_future()

    def check(self) -> None:
        super().check()
        check_purgatory(self.on_loop, self.loop_request)
        assert self.loop_held.done(), "a held request was lost"
        if not self.loop_held.cancelled():
            self.loop_held.exception()  # Else asyncio reports that nobody looked.


#: The objects whose methods are called, by name.
INSTANCES: dict[str, Callable[[World], Any]] = {
    "SystemTimer": lambda world: world.timer,
    "TimerTask": lambda world: world.task,
    "TimerHandle": lambda world: world.timer.call_later_ms(1000, ignore),
    "DelayedOperation": lambda world: world.request,
    "new DelayedOperation": lambda _: Request(),
    "DelayedOperationPurgatory": lambda world: world.purgatory,
    "LegacyPurgatory": lambda world: world.legacy,
    "future of hold": lambda world: world.held,
    "ended future of hold": lambda world: world.purgatory.hold(["ended"], until=lambda: True),
    "Clock": lambda _: clock.Clock(),
    "ManualClock": lambda world: world.clock,
    "MonotonicClock": lambda _: clock.MonotonicClock(),
    "PurgatoryMetrics": lambda world: world.purgatory.metrics(),
    "PurgatorySnapshot": lambda world: world.purgatory.snapshot(),
    "WaitingGroup": lambda world: world.purgatory.snapshot().by_type[0],
    "WaitingOperation": lambda world: world.purgatory.snapshot().longest[0],
    "WheelOccupancy": lambda world: world.timer.occupancy()[0],
    "Quorum": lambda _: Quorum((), (), ()),
    "timer of LegacyPurgatory": lambda world: world.legacy.timer,
    "operation of hold": lambda world: world.held.operation,
    "PurgatoryCollector": lambda _: prometheus.PurgatoryCollector(),
    "ProcessMetrics": lambda _: process_metrics.ProcessMetrics(),
    "VirtualTimeEventLoop": lambda _: testing.VirtualTimeEventLoop(),
}

LOOP_INSTANCES: dict[str, Callable[[Any], Any]] = {
    "aio.Purgatory": lambda world: world.on_loop,
    "future of aio.hold": lambda world: world.loop_held,
    "TimingWheelEventLoop": lambda world: world.loop,
    "WheelHandle": lambda world: world.loop.call_later(1000, ignore),
}

#: Methods that wait as long as nothing ends the request: that of an ended future is called instead.
WAITING = {("future of hold", "result"), ("future of hold", "exception")}

#: Not public, but attributes lead there: a call may fail in any way, but must not crash.
PARTS: dict[str, Callable[[World], Any]] = {
    "Bucket": lambda world: world.task._timer_list,
    "PendingTasks": lambda world: world.timer._pending,
    "CoreLock": lambda world: world.timer._pending.lock,
    "WatchTable": lambda world: world.purgatory._table,
    "WatchShard": lambda world: world.purgatory._table.shard_of("a"),
    "WatcherList": lambda world: world.purgatory._table.shard_of("a").get("a"),
    "PurgatoryCounters": lambda world: world.purgatory._counters,
    "PurgeBacklog": lambda world: world.purgatory._backlog,
}


def _public(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes of a module, by `__all__` or by where they were made."""
    names = getattr(module, "__all__", None) or [
        name for name, found in vars(module).items() if _is_own(found, module.__name__)
    ]
    for name in names:
        found = getattr(module, name)
        if callable(found) and not name.startswith("_"):
            yield name, found


def _is_own(found: Any, module: str) -> bool:
    return callable(found) and getattr(found, "__module__", None) == module


#: The functions and classes that are called themselves, by name.
CALLABLES: dict[str, Callable[..., Any]] = {
    name: found
    for module in (
        *(request_purgatory, clock, errors, metrics, prometheus, opentelemetry),
        *(process_metrics, snapshot, testing, timer, tracing),
    )
    for name, found in _public(module)
    if not (inspect.isclass(found) and issubclass(found, asyncio.AbstractEventLoop))
} | {"aio.Purgatory": aio.Purgatory, "LegacyPurgatory": LegacyPurgatory}

#: Arguments that are right, by the parameter's name. All others get None.
RIGHT: dict[str, Callable[[Any], Any]] = {
    "args": lambda _: (),
    "at_most": lambda _: 5,
    "batch": lambda _: 10,
    "callback": lambda _: ignore,
    "clock": lambda world: world.clock,
    "collector": lambda _: prometheus.PurgatoryCollector(),
    "context": lambda _: None,
    "delay": lambda _: 1000,
    "delay_ms": lambda _: 5,
    "expiration_ms": lambda _: 5,
    "futures": lambda world: [world.new_future()],
    "key": lambda _: "a",
    "keys": lambda _: ["b"],
    "kind": lambda _: "Request",
    "limit": lambda _: 5,
    "main": lambda _: _coroutine(),
    "memo": lambda _: {},
    "meter": lambda _: NoOpMeter("misused"),
    "ms": lambda _: 5,
    "name": lambda _: "misused",
    "now_ms": lambda _: 5,
    "now_ns": lambda world: world.clock.now_ns,
    "operation": lambda _: Request(),
    "parker": lambda _: _parker(),
    "purgatory": lambda world: world.purgatory,
    "quorum": lambda _: Quorum((), (), ()),
    "seconds": lambda _: 1,
    "shard": lambda _: 0,
    "signum": lambda _: None,
    "state": lambda _: 2,
    "task": lambda _: Task(5),
    "tick_ms": lambda _: 1,
    "timeout": lambda _: 1,
    "timeout_ms": lambda _: 0,
    "tracer": lambda _: NoOpTracer(),
    "until": lambda _: ignore,
    "until_ms": lambda _: 0,
    "value": lambda _: 5,
    "watch_keys": lambda _: ["b"],
    "watchers": lambda world: world.purgatory._table.shard_of("a").get("a"),
    "wheel_size": lambda _: 20,
    "when": lambda world: world.loop.time() + 1000,
}

#: The same for single calls whose parameter means something else.
RIGHT_FOR: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("renew", "operation"): lambda world: world.request,
    ("gather", "quorum"): lambda _: 1,
    ("answer", "error"): lambda _: None,
}


async def _coroutine() -> None:
    """End at once."""


def _parker() -> Parker:
    """Return a parker whose sleep ends at once."""
    parker = Parker()
    parker.unpark()
    return parker


#: Arguments with which the class's `__init__` raises, half way where there is a half.
REFUSED: dict[str, dict[str, Any]] = {
    "SystemTimer": {"name": "refused", "wheel_size": 0},
    "TimerTask": {"delay_ms": "refused"},
    "TimerHandle": {"delay_ms": "refused", "callback": ignore, "args": ()},
    "DelayedOperation": {"timeout_ms": "refused"},
    "DelayedOperationPurgatory": {"shards": 0},
    "LegacyPurgatory": {"purge_interval": -1},
    "ManualPurgatory": {"shards": 0},
    "ManualClock": {"now_ms": -1},
    "aio.Purgatory": {"batch": 0},
}


@contextmanager
def _refusal() -> Iterator[None]:
    try:
        yield
    except (errors.PurgatoryError, TypeError):
        pass


def uninitialized(name: str) -> dict[str, Callable[[], Any]]:
    """Return how to make objects of a public class whose `__init__` did not run to its end."""
    kind: Any = CALLABLES[name]

    def without_super() -> Any:
        return type(kind.__name__, (kind,), {"__init__": ignore})()

    def escaped() -> Any:
        found: list[Any] = []

        def init(self: Any) -> None:
            found.append(self)
            kind.__init__(self, **REFUSED[name])

        with _refusal():
            type(kind.__name__, (kind,), {"__init__": init})()
        return found[0]

    return {
        f"{name} without __init__": lambda: kind.__new__(kind),
        f"{name} without super().__init__": without_super,
        f"{name} whose __init__ raised": escaped,
    }


UNINITIALIZED: dict[str, Callable[[], Any]] = {
    shown: make for name in REFUSED for shown, make in uninitialized(name).items()
}
