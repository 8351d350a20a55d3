"""The sides of the benchmark: their names, whether they can be had, and the parts of them that Python does not come with.

Measured loops call each peer's own methods (`loop.call_later(...)`, `handle.cancel()`), never a
layer of ours, so there is a small function per side in every question, and no common interface
here.

trio has no timers to call back: a deadline belongs to a cancel scope. Opening and closing
`trio.move_on_after(...)` is what its users do for a timeout, so that stands for scheduling and
cancelling; pending ones are open scopes, one inside the other.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from request_purgatory.aio import TimingWheelEventLoop

OURS = "request_purgatory"
OURS_MANUAL = "request_purgatory (manual clock)"
LEGACY = "request_purgatory (0.8 design)"
ASYNCIO = "asyncio"
UVLOOP = "uvloop"
HEAPQ = "heapq"
THREADING = "threading.Timer"
SCHED = "sched"
TRIO = "trio"
KAFKA = "kafka"
NETTY = "netty"

# Waiters of asyncio, and event loops.
WAIT_FOR = "asyncio.wait_for"
CONDITION = "asyncio.Condition"
OURS_TASKS = "request_purgatory (in tasks)"

# What is written on Spark today.
STREAM_JOIN = "stream-stream join"
STREAM_TIMERS = "timer per request"
SPARK_SQL = "Spark SQL"

# Brokers.
OURS_THREAD = "request_purgatory (in a thread)"
MOCK_CLUSTER = "librdkafka's mock"
KAFKA_BROKER = "Apache Kafka"

JVM = (KAFKA, NETTY)
TIMERS = (OURS, OURS_MANUAL, ASYNCIO, UVLOOP, HEAPQ, TRIO, SCHED, THREADING, KAFKA, NETTY)
ON_SPARK = (STREAM_JOIN, STREAM_TIMERS, SPARK_SQL)
BROKERS = (OURS_THREAD, MOCK_CLUSTER, KAFKA_BROKER)
ALL = (OURS, OURS_MANUAL, OURS_TASKS, LEGACY, *TIMERS[2:], WAIT_FOR, CONDITION, *ON_SPARK, *BROKERS)

#: A thread for each pending timer: more of them are refused by many systems' limits.
MOST_THREADS = 1_000
TOO_MANY_THREADS = f"one thread per timer: not run above {MOST_THREADS:,}"
#: Cancelling searches the whole queue and sorts it into a heap again.
MOST_SCHED = 10_000
SCHED_IS_LINEAR = f"cancelling is O(pending): not run above {MOST_SCHED:,}"


def unavailable(side: str) -> str | None:
    """Why a Python side can't be had here; None if it can."""
    if side in (UVLOOP, TRIO) and importlib.util.find_spec(side) is None:
        return f"ImportError: no module named {side!r} (pip install {side})"
    return None


def versions() -> dict[str, str]:
    """The version of every Python side that can be had.

    Those in the standard library have Python's.
    """
    found = dict.fromkeys((ASYNCIO, HEAPQ, SCHED, THREADING), f"Python {platform.python_version()}")
    for side, package in ((OURS, "request-purgatory"), (UVLOOP, "uvloop"), (TRIO, "trio")):
        try:
            found[side] = version(package)
        except PackageNotFoundError:
            continue
    return found


def nothing() -> None:
    """The callback of every side where none is called."""


def open_loop(side: str) -> asyncio.AbstractEventLoop:
    """Return a private event loop: ours, uvloop's, or for every other side the standard one."""
    if side == OURS:
        return TimingWheelEventLoop()
    if side == UVLOOP:
        import uvloop  # Not everywhere to be had.

        return uvloop.new_event_loop()
    return asyncio.SelectorEventLoop()


@contextmanager
def ended_timers() -> Iterator[None]:
    """Cancel the threads of `threading.Timer` that a block has started, and wait until they have ended.

    They are found afterwards instead of being kept, as keeping them would be measured.
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


async def let_loop_run() -> None:
    """One iteration of the loop, in which it drops cancelled timers if it wants to."""
    await asyncio.sleep(0)


class HeapTimer:
    """The timer that is written by hand with `heapq`: entries [deadline, number, callback], cancelling clears the callback.

    Cancelled entries are left until they come to the top, or until they are more than half, when
    all are dropped at once: so memory is bounded, and cancelling is O(1) on average. Not safe for
    threads.
    """

    __slots__ = ("_cancelled", "_heap", "_next", "_now")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """`now` gives seconds."""
        self._heap: list[list[object]] = []
        self._next = 0
        self._cancelled = 0
        self._now = now

    def call_later(self, delay: float, callback: Callable[[], object]) -> list[object]:
        """Call `callback` in `delay` seconds. The entry is the handle."""
        self._next = number = self._next + 1
        entry: list[object] = [self._now() + delay, number, callback]
        heapq.heappush(self._heap, entry)
        return entry

    def cancel(self, entry: list[object]) -> None:
        """Call an entry off; nothing if it ran or was cancelled."""
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
        """How many are pending."""
        return len(self._heap) - self._cancelled

    def next_deadline(self) -> float | None:
        """The deadline of the first entry that was not cancelled."""
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
        """Call what is due."""
        # Sorts after every entry that is due now, because no entry has that number.
        now: list[object] = [self._now(), math.inf]
        # The heap may be another one after each callback, which may cancel.
        while self._heap and self._heap[0] <= now:
            entry = heapq.heappop(self._heap)
            callback = entry[2]
            if callback is None:
                self._cancelled -= 1
                continue
            entry[2] = None
            callback()  # type: ignore[operator]  # entries are plain lists because those are quick to make and to compare


class VirtualTime:
    """Seconds that stand still until they are told to move; callable, as timers take it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, delay: float) -> None:
        """Move forward, in no time."""
        self.now += delay


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would sleep, time jumps to the end of the sleep."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__()
        self._time = time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            self._time.sleep(timeout)
        found: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, all of its code, under virtual time.

    By `time`, which is made to be overridden, and a selector.
    """

    def __init__(self) -> None:
        self._virtual = VirtualTime()
        super().__init__(_JumpingSelector(self._virtual))

    def time(self) -> float:
        return self._virtual.now
