"""The one module that knows what time it is.

Everything else is handed a clock. A clock counts nanoseconds from an origin of its own; timers work
in whole milliseconds and ask for two readings: `now_ms`, rounded down, for "has that moment come?",
and `ceil_ms`, rounded up, for "when does a delay that starts now end?". With both, a delay is never
cut short by the part of a millisecond that rounding throws away.
"""

from __future__ import annotations

import threading

from request_purgatory._native import primitives
from request_purgatory._native.parker import Parker
from request_purgatory.errors import InvalidArgumentError, whole_number

NS_PER_MS = 1_000_000

#: How far a clock can count: 292 years of nanoseconds fit 64 bits.
MAX_NOW_MS = (2**63 - 1) // NS_PER_MS


class Clock:
    """What timers need of a clock. Any thread may read it.

    Subclasses give `now_ns` and `wait_until`.
    """

    __slots__ = ("__weakref__",)

    @property
    def now_ns(self) -> int:
        """Nanoseconds since the clock's origin; never goes back."""
        raise NotImplementedError

    @property
    def now_ms(self) -> int:
        """Whole milliseconds that have passed since the clock's origin."""
        return primitives.floor_ms(self._read_ns())

    @property
    def ceil_ms(self) -> int:
        """The first whole millisecond that is not in the past."""
        return primitives.ceil_ms(self._read_ns())

    def _read_ns(self) -> int:
        """`now_ns` by a way that compiled code takes without a look-up.

        It is read at every operation.
        """
        return self.now_ns

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        """Park until this clock reads `until_ms`, or until somebody unparks the parker.

        May return early: the caller looks at the clock and at what it waits for, and waits again.

        Args:
            parker: Where to sleep. No lock is held meanwhile.
            until_ms: Whole milliseconds on this clock; None is without a limit.
        """
        raise NotImplementedError


def check_range(clock: Clock) -> None:
    """InvalidArgumentError if the clock reads what timers can't count from.

    Less than 0, or beyond 292 years.
    """
    now_ns = clock.now_ns
    if not 0 <= now_ns <= MAX_NOW_MS * NS_PER_MS:
        raise InvalidArgumentError(
            "clock",
            f"one that reads from 0 to {MAX_NOW_MS * NS_PER_MS} ns (292 years)",
            f"{now_ns} ns",
        )


class MonotonicClock(Clock):
    """The machine's monotonic clock (`time.monotonic_ns`): wall-clock changes do not move it."""

    __slots__ = ()

    @property
    def now_ns(self) -> int:
        return primitives.monotonic_ns()

    def _read_ns(self) -> int:
        return primitives.monotonic_ns()

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        parker.park(
            None if until_ms is None else (until_ms * NS_PER_MS - primitives.monotonic_ns()) / 1e9
        )


class ManualClock(Clock):
    """A clock that stands still until it is told to move: for tests, and for replaying traces.

    Threads that sleep on it (a purgatory's clock thread, say) are woken whenever it moves, so
    timeouts can be tested without waiting for them. Any thread may move it; two that do so at once
    are put in order.

    >>> clock = ManualClock(now_ms=100)
    >>> clock.advance(50)
    >>> clock.now_ms
    150
    """

    __slots__ = ("_lock", "_now_ns", "_sleepers")

    def __init__(self, now_ms: int = 0) -> None:
        """Start at `now_ms` (whole milliseconds, not negative; InvalidArgumentError otherwise)."""
        # One float let in here would make every later reading a float.
        now_ms = whole_number("now_ms", now_ms)
        if not 0 <= now_ms <= MAX_NOW_MS:
            raise InvalidArgumentError(
                "now_ms", f"at least 0 and at most {MAX_NOW_MS} (292 years)", now_ms
            )
        self._lock = threading.Lock()
        self._now_ns = now_ms * NS_PER_MS
        self._sleepers: list[Parker] = []

    @property
    def now_ns(self) -> int:
        return self._now_ns

    def _read_ns(self) -> int:
        return self._now_ns

    def advance(self, ms: int) -> None:
        """Move forward by `ms` whole milliseconds.

        InvalidArgumentError if negative, not a whole number, or beyond 292 years.
        """
        if type(ms) is not int:
            ms = whole_number("ms", ms)
        if ms < 0:
            raise InvalidArgumentError("ms", "at least 0", ms)
        with self._lock:
            if ms > MAX_NOW_MS - primitives.ceil_ms(self._now_ns):
                raise InvalidArgumentError(
                    "ms", f"such that the clock does not pass {MAX_NOW_MS} (292 years)", ms
                )
            self._now_ns += ms * NS_PER_MS
        if self._sleepers:
            self._wake_sleepers()

    def advance_to_ns(self, now_ns: int) -> None:
        """Move to `now_ns`, whole nanoseconds since the origin.

        InvalidArgumentError if that is in the past.
        """
        if type(now_ns) is not int:
            now_ns = whole_number("now_ns", now_ns)
        with self._lock:
            if now_ns < self._now_ns:
                raise InvalidArgumentError(
                    "now_ns", f"at least {self._now_ns}, where the clock is", now_ns
                )
            if now_ns > MAX_NOW_MS * NS_PER_MS:
                raise InvalidArgumentError(
                    "now_ns", f"at most {MAX_NOW_MS * NS_PER_MS} (292 years)", now_ns
                )
            self._now_ns = now_ns
        if self._sleepers:
            self._wake_sleepers()

    def _move_to_ns(self, now_ns: int) -> None:
        """`advance_to_ns` for who alone moves the clock, and only ahead.

        A replay does it at every instant.
        """
        self._now_ns = now_ns
        if self._sleepers:
            self._wake_sleepers()

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        # Registered before the look at the time: a move after that look finds the parker here. So
        # no move is missed.
        with self._lock:
            self._sleepers.append(parker)
        try:
            if until_ms is None or self.now_ms < until_ms:
                parker.park(None)
        finally:
            with self._lock:
                self._sleepers.remove(parker)

    def _wake_sleepers(self) -> None:
        for parker in list(self._sleepers):
            parker.unpark()
