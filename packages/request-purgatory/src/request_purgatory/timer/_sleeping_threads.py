"""The threads that sleep until a timer has something to do."""

from __future__ import annotations

from request_purgatory._native.parker import Parker


class SleepingThread(Parker):
    """The place where one thread at a time sleeps on a timer.

    Attributes:
        until_ms: When the thread wakes by itself, on the timer's clock; `primitives.LIMIT` if it
            waits without a limit, -1 while no thread sleeps here.
        in_use: True while a thread has this place.
        next: The next place in the chain.
    """

    __slots__ = ("in_use", "next", "until_ms")

    def __init__(self) -> None:
        super().__init__()
        self.until_ms = -1
        self.in_use = True
        self.next: SleepingThread | None = None


class SleepingThreads:
    """The threads that sleep on one timer, and the time at which the first of them wakes by itself.

    Callers hold the timer's lock for every method except `wake_all`. The places form a chain that
    only grows, up to the largest number of threads that ever slept at once. So no method allocates
    memory, and `wake_all` walks the chain without the lock.

    Attributes:
        earliest_ms: The earliest `until_ms`; -1 while no thread sleeps. A thread that adds a task
            that is due earlier calls `wake_all`. That does not change `earliest_ms`: until the
            woken thread has collected what is due, each further early task wakes it again. So no
            wake-up relies on another one having completed.
    """

    __slots__ = ("_first", "earliest_ms")

    def __init__(self) -> None:
        self._first: SleepingThread | None = None
        self.earliest_ms = -1

    def take_free(self) -> SleepingThread | None:
        """Take a place that no thread uses; None if all are in use: the caller has to `add` one."""
        sleeper = self._first
        while sleeper is not None and sleeper.in_use:
            sleeper = sleeper.next
        if sleeper is not None:
            sleeper.in_use = True
        return sleeper

    def add(self, sleeper: SleepingThread) -> None:
        """Add a place to the chain, where it stays."""
        sleeper.next = self._first
        self._first = sleeper

    def sleep_until(self, sleeper: SleepingThread, until_ms: int) -> None:
        sleeper.until_ms = until_ms
        self._find_earliest()

    def release(self, sleeper: SleepingThread) -> bool:
        """Record that the thread has left `sleeper`; return True if other threads still sleep.

        They may have relied on this thread for an earlier task: wake them.
        """
        sleeper.until_ms = -1
        sleeper.in_use = False
        self._find_earliest()
        return self.earliest_ms >= 0

    def _find_earliest(self) -> None:
        earliest_ms = -1
        sleeper = self._first
        while sleeper is not None:
            until_ms = sleeper.until_ms
            if until_ms >= 0 and (earliest_ms < 0 or until_ms < earliest_ms):
                earliest_ms = until_ms
            sleeper = sleeper.next
        self.earliest_ms = earliest_ms

    def wake_all(self) -> None:
        """Wake all sleeping threads, so that they look at the timer again.

        Call it without the timer's lock.
        """
        sleeper = self._first
        while sleeper is not None:
            if sleeper.until_ms >= 0:
                sleeper.unpark()
            sleeper = sleeper.next
