"""The sides of the benchmark: names, availability, and helpers for the peers.

Measured loops call each peer's own methods (`loop.call_later(...)`, `handle.cancel()`) without a
layer in between. So every question has a small function for each side, and there is no common
interface here.

trio's timers do not call back: a deadline belongs to a cancel scope. For a timeout, its users open
and close `trio.move_on_after(...)`; this counts as scheduling and cancelling. Pending timers are
open scopes, each inside the previous one.
"""

from __future__ import annotations

import asyncio
import heapq
import importlib.util
import math
import platform
import selectors
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from request_purgatory.aio import TimingWheelEventLoop

OURS = "request_purgatory"
OURS_MANUAL = "request_purgatory (manual clock)"
LEGACY = "request_purgatory (0.8 design)"
NO_PURGATORY = "the loop without a purgatory"
ASYNCIO = "asyncio"
UVLOOP = "uvloop"
HEAPQ = "heapq"
THREADING = "threading.Timer"
SCHED = "sched"
TRIO = "trio"
KAFKA = "kafka"
KAFKA_LIST_QUEUE = "kafka (list queue)"
NETTY = "netty"

# What waits on threads.
FUTURE = "concurrent.futures.Future"
EVENT = "threading.Event"

# asyncio's waiters and event loops.
WAIT_FOR = "asyncio.wait_for"
CONDITION = "asyncio.Condition"
OURS_TASKS = "request_purgatory (in tasks)"

# Solutions on Spark without this project.
STREAM_JOIN = "stream-stream join"
STREAM_TIMERS = "timer per request"
SPARK_SQL = "Spark SQL"
OURS_TABLES = "request_purgatory (DataFrames)"
OURS_CALLS = "request_purgatory (own table)"

# Solutions on one machine without Spark.
DUCKDB = "duckdb"
POLARS = "polars"

# Brokers.
OURS_THREAD = "request_purgatory (in a thread)"
MOCK_CLUSTER = "librdkafka's mock"
KAFKA_BROKER = "Apache Kafka"

JVM = (KAFKA, KAFKA_LIST_QUEUE, NETTY)
#: Sides that are another one with further parameters in the JVM's harness.
JVM_VARIANTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    KAFKA_LIST_QUEUE: (KAFKA, {"queue": "list"}),
}
TIMERS = (OURS, OURS_MANUAL, ASYNCIO, UVLOOP, HEAPQ, TRIO, SCHED, THREADING, KAFKA, NETTY)
ON_SPARK = (OURS_TABLES, OURS_CALLS, STREAM_JOIN, STREAM_TIMERS, SPARK_SQL)
ON_TABLES = (DUCKDB, POLARS)
BROKERS = (OURS_THREAD, MOCK_CLUSTER, KAFKA_BROKER)
ALL = (
    OURS,
    OURS_MANUAL,
    OURS_TASKS,
    LEGACY,
    NO_PURGATORY,
    *TIMERS[2:],
    KAFKA_LIST_QUEUE,
    FUTURE,
    EVENT,
    WAIT_FOR,
    CONDITION,
    *ON_SPARK,
    *ON_TABLES,
    *BROKERS,
)

#: The most pending timers with a thread each: many systems' limits allow no more.
MAX_THREADS = 1_000
TOO_MANY_THREADS = f"one thread per timer: not run above {MAX_THREADS:,}"
#: The most pending timers of `sched`: cancelling searches its whole queue and rebuilds the heap.
MAX_SCHED = 10_000
SCHED_IS_LINEAR = f"cancelling is O(pending): not run above {MAX_SCHED:,}"


def unavailable_reason(side: str) -> str | None:
    """Return the reason why a Python side is unavailable here; None if it is available."""
    if side in (UVLOOP, TRIO, DUCKDB, POLARS) and importlib.util.find_spec(side) is None:
        return f"ImportError: no module named {side!r} (pip install {side})"
    return None


def versions() -> dict[str, str]:
    """Return the version of every available Python side.

    Sides in the standard library have Python's version.
    """
    found = dict.fromkeys((ASYNCIO, HEAPQ, SCHED, THREADING), f"Python {platform.python_version()}")
    packages = {OURS: "request-purgatory"} | {side: side for side in (UVLOOP, TRIO, DUCKDB, POLARS)}
    for side, package in packages.items():
        try:
            found[side] = version(package)
        except PackageNotFoundError:
            continue
    return found


def no_op() -> None:
    """Do nothing, as the callback of a timer that does not expire."""


def open_loop(side: str) -> asyncio.AbstractEventLoop:
    """Return a private event loop: ours, uvloop's, or for every other side the standard one."""
    if side == OURS:
        return TimingWheelEventLoop()
    if side == UVLOOP:
        import uvloop  # Optional.

        return uvloop.new_event_loop()
    return asyncio.SelectorEventLoop()


@contextmanager
def cancel_started_timers() -> Iterator[None]:
    """Cancel the threads of `threading.Timer` that the block starts, and wait for their end.

    The threads are found after the block, because a list of them would be measured.
    """
    before = set(threading.enumerate())
    try:
        yield
    finally:
        after = set(threading.enumerate()) - before
        started = [thread for thread in after if isinstance(thread, threading.Timer)]
        for timer in started:
            timer.cancel()
        for timer in started:
            timer.join()


async def run_loop_once() -> None:
    """Let the loop run once, in which it may remove cancelled timers."""
    await asyncio.sleep(0)


class HeapTimer:
    """A timer written by hand with `heapq`; cancelling clears an entry's callback.

    Entries are lists [deadline, number, callback]. Cancelled entries stay until they reach the top
    of the heap, or until they are more than half of it; then all are removed. So memory is bounded,
    and cancelling is O(1) on average. Not safe for threads.
    """

    __slots__ = ("_cancelled", "_heap", "_next", "_now")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Create a timer; `now` returns seconds."""
        self._heap: list[list[object]] = []
        self._next = 0
        self._cancelled = 0
        self._now = now

    def call_later(self, delay: float, callback: Callable[[], object]) -> list[object]:
        """Call `callback` in `delay` seconds.

        Returns:
            The entry, as a handle.
        """
        self._next = number = self._next + 1
        entry: list[object] = [self._now() + delay, number, callback]
        heapq.heappush(self._heap, entry)
        return entry

    def cancel(self, entry: list[object]) -> None:
        """Cancel an entry; no-op if it has run or was cancelled."""
        if entry[2] is None:
            return
        entry[2] = None
        self._cancelled = cancelled = self._cancelled + 1
        if cancelled > 64 and cancelled * 2 > len(self._heap):
            self._heap = [kept for kept in self._heap if kept[2] is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    @property
    def size(self) -> int:
        """The number of pending timers."""
        return len(self._heap) - self._cancelled

    def next_deadline(self) -> float | None:
        """Return the deadline of the first pending entry; None if there is none."""
        heap = self._heap
        while heap:
            if heap[0][2] is not None:
                deadline = heap[0][0]
                assert isinstance(deadline, float)
                return deadline
            heapq.heappop(heap)
            self._cancelled -= 1
        return None

    def run_due(self) -> None:
        """Call the callbacks that are due."""
        # Greater than every entry that is due now, because no entry has this number.
        now: list[object] = [self._now(), math.inf]
        # A callback may cancel entries, which may replace the list.
        while self._heap and self._heap[0] <= now:
            entry = heapq.heappop(self._heap)
            callback = entry[2]
            if callback is None:
                self._cancelled -= 1
                continue
            entry[2] = None
            # Entries are plain lists because they are fast to make and to compare.
            callback()  # type: ignore[operator]


class VirtualTime:
    """A clock in seconds that advances only on request; calling it returns the time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, delay: float) -> None:
        """Advance the clock by `delay` without waiting."""
        self.now += delay


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances the virtual time instead of sleeping."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__()
        self._time = time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            self._time.sleep(timeout)
        found: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop in virtual time.

    Only `time` and the selector are replaced.
    """

    def __init__(self) -> None:
        self._virtual = VirtualTime()
        super().__init__(_JumpingSelector(self._virtual))

    def time(self) -> float:
        return self._virtual.now
