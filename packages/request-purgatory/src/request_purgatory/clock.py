"""Clocks: the only module that reads the time.

All other code is given a clock. A clock counts nanoseconds from its own origin. Timers work in
whole milliseconds and use two readings. `now_ms`, rounded down, decides whether a time has passed.
`ceil_ms`, rounded up, is the start of a new delay. So rounding never shortens a delay.
"""

from __future__ import annotations

import threading
from typing import NoReturn

from request_purgatory._native import primitives
from request_purgatory._native.parker import Parker
from request_purgatory.errors import (
    InvalidArgumentError,
    NotInitializedError,
    refuse_copy,
    refuse_pickling,
    require_type,
    whole_number,
)

NS_PER_MS = 1_000_000

#: The largest time of a clock: 292 years, whose nanoseconds fit 64 bits.
MAX_NOW_MS = (2**63 - 1) // NS_PER_MS


class Clock:
    """The base class of clocks. Any thread may read a clock.

    Subclasses override `now_ns` and `wait_until`.
    """

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        """Create a clock, without arguments: compiled, a class without this takes any."""

    @property
    def now_ns(self) -> int:
        """Nanoseconds since the clock's origin; never decreases."""
        raise NotImplementedError

    @property
    def now_ms(self) -> int:
        """Milliseconds since the clock's origin, rounded down."""
        return primitives.floor_ms(self.read_ns())

    @property
    def ceil_ms(self) -> int:
        """Milliseconds since the clock's origin, rounded up."""
        return primitives.ceil_ms(self.read_ns())

    def read_ns(self) -> int:
        """Return `now_ns`; compiled code calls this, at every operation, without a look-up."""
        return self.now_ns

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        """Park until this clock reads `until_ms`, or until another thread unparks the parker.

        It may return early: callers check the clock and their condition, and wait again.

        Args:
            parker: Where to sleep. The caller holds no lock.
            until_ms: Whole milliseconds on this clock; None waits without a limit.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError


def check_range(clock: Clock) -> None:
    """Raise InvalidArgumentError unless the clock is one, and reads from 0 to 292 years."""
    if not isinstance(clock, Clock):
        raise InvalidArgumentError("clock", "a Clock", clock)
    now_ns = clock.now_ns
    if not now_ns >= 0 or now_ns > MAX_NOW_MS * NS_PER_MS:  # Also for NaN.
        raise InvalidArgumentError(
            "clock",
            f"one that reads from 0 to {MAX_NOW_MS * NS_PER_MS} ns (292 years)",
            f"{now_ns} ns",
        )


def _check_wait(parker: object, until_ms: object) -> None:
    require_type("parker", parker, Parker)
    if until_ms is not None and type(until_ms) is not int:
        whole_number("until_ms", until_ms)


class MonotonicClock(Clock):
    """The machine's monotonic clock (`time.monotonic_ns`): wall-clock changes do not move it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<MonotonicClock>"

    @property
    def now_ns(self) -> int:
        return primitives.monotonic_ns()

    def read_ns(self) -> int:
        return primitives.monotonic_ns()

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        _check_wait(parker, until_ms)
        parker.park(
            None if until_ms is None else (until_ms * NS_PER_MS - primitives.monotonic_ns()) / 1e9
        )


class ManualClock(Clock):
    """A clock that only moves when a program advances it: for tests, and for replaying traces.

    Each move wakes the threads that sleep on the clock, such as a purgatory's clock thread. So
    tests of timeouts do not have to wait. Any thread may advance the clock.

    >>> clock = ManualClock(now_ms=100)
    >>> clock.advance(50)
    >>> clock.now_ms
    150
    """

    __slots__ = ("_lock", "_now_ns", "_sleepers")

    def __init__(self, now_ms: int = 0) -> None:
        """Create a clock that reads `now_ms`.

        Args:
            now_ms: Whole milliseconds, from 0 to 292 years.

        Raises:
            InvalidArgumentError: `now_ms` is not a whole number, or out of range.
        """
        # A float here would make every later reading a float.
        now_ms = whole_number("now_ms", now_ms)
        if now_ms < 0 or now_ms > MAX_NOW_MS:
            raise InvalidArgumentError(
                "now_ms", f"at least 0 and at most {MAX_NOW_MS} (292 years)", now_ms
            )
        self._lock = threading.Lock()
        self._now_ns = now_ms * NS_PER_MS
        self._sleepers: list[Parker] = []

    def __repr__(self) -> str:
        try:
            return f"<{type(self).__name__} now_ms={self.now_ms}>"
        except NotInitializedError:
            pass
        return f"<{type(self).__name__} not initialized>"

    # A copy would share the original's sleeping threads.
    __copy__ = __deepcopy__ = refuse_copy
    __reduce__ = refuse_pickling

    @property
    def now_ns(self) -> int:
        """Nanoseconds since the clock's origin."""
        return self.read_ns()

    def read_ns(self) -> int:
        """Return `now_ns`."""
        primitives.require_init(self._lock is not None, self)
        return self._now_ns

    def advance(self, ms: int) -> None:
        """Advance the clock.

        Args:
            ms: Whole milliseconds, at least 0.

        Raises:
            InvalidArgumentError: `ms` is negative or not a whole number, or the clock would pass
                292 years.
        """
        primitives.require_init(self._lock is not None, self)
        if type(ms) is not int:
            ms = whole_number("ms", ms)
        if ms < 0:
            raise InvalidArgumentError("ms", "at least 0", ms)
        self._lock.acquire()
        try:
            if ms > MAX_NOW_MS - primitives.ceil_ms(self._now_ns):
                raise InvalidArgumentError(
                    "ms", f"such that the clock does not pass {MAX_NOW_MS} (292 years)", ms
                )
            self._now_ns += ms * NS_PER_MS
        finally:
            self._lock.release()
        if self._sleepers:
            self._wake_sleepers()

    def advance_to_ns(self, now_ns: int) -> None:
        """Advance the clock to `now_ns`.

        Args:
            now_ns: Whole nanoseconds since the origin, not less than the current time.

        Raises:
            InvalidArgumentError: `now_ns` is in the past, not a whole number, or beyond 292 years.
        """
        primitives.require_init(self._lock is not None, self)
        if type(now_ns) is not int:
            now_ns = whole_number("now_ns", now_ns)
        self._lock.acquire()
        try:
            if now_ns < self._now_ns:
                raise InvalidArgumentError(
                    "now_ns", f"at least {self._now_ns}, the current time", now_ns
                )
            if now_ns > MAX_NOW_MS * NS_PER_MS:
                raise InvalidArgumentError(
                    "now_ns", f"at most {MAX_NOW_MS * NS_PER_MS} (292 years)", now_ns
                )
            self._now_ns = now_ns
        finally:
            self._lock.release()
        if self._sleepers:
            self._wake_sleepers()

    def _set_now_ns(self, now_ns: int) -> None:
        """Set the clock without a check or a lock: a replay does so, never to an earlier time."""
        self._now_ns = now_ns
        if self._sleepers:
            self._wake_sleepers()

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        """Park until this clock reads `until_ms`, or until another thread unparks the parker."""
        primitives.require_init(self._lock is not None, self)
        _check_wait(parker, until_ms)
        # Register before reading the time: a move after that reading finds the parker. So no move
        # is missed.
        self._lock.acquire()
        try:
            self._sleepers.append(parker)
        finally:
            self._lock.release()
        try:
            if until_ms is None or self.now_ms < until_ms:
                parker.park(None)
        finally:
            self._lock.acquire()
            try:
                self._sleepers.remove(parker)
            finally:
                self._lock.release()

    def _wake_sleepers(self) -> None:
        try:
            sleepers = list(self._sleepers)
        except MemoryError:
            sleepers = list(self._sleepers)  # The clock has moved: the threads have to look.
        for parker in sleepers:
            parker.unpark()


def _unset(self: ManualClock, name: str) -> NoReturn:
    if name in ManualClock.__slots__:
        raise NotInitializedError(type(self).__name__)
    raise AttributeError(
        f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
    )


if not primitives.COMPILED:  # Compiled, a field begins as None or 0.
    ManualClock.__getattr__ = _unset  # type: ignore[attr-defined]
