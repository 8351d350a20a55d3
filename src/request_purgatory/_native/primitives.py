"""The few things that compiled code does in another way than Python can: this is the interpreted one.

The core is one source, plain Python, that Cython compiles as it stands. `primitives.pyx` takes this
module's place then: with the interpreter lock around it, C needs no other lock for a handful of
loads and stores, and reads the clock without a call into Python. Everything else has one text for
both builds.
"""

from __future__ import annotations

import threading
from threading import get_ident
from time import monotonic_ns
from typing import TypeVar

from request_purgatory.errors import InterruptedUseError

Key = TypeVar("Key")
Value = TypeVar("Value")

__all__ = [
    "COMPILED",
    "DEEPEST",
    "FORKS_HOLD_LOCKS",
    "HIDES",
    "LIMIT",
    "MAX_DELAY_MS",
    "CoreLock",
    "bit_length",
    "ceil_ms",
    "clamp",
    "deeper",
    "floor_ms",
    "has_postponed",
    "hide",
    "hold",
    "let_go",
    "lock",
    "look_up",
    "monotonic_ns",
    "renew_locks",
    "set_postponed",
    "shallower",
    "show",
    "thread_mark",
    "unlock",
    "whole_ms",
]

COMPILED = False

#: Whether a fork may find another thread inside of a lock, half way through a change.
FORKS_HOLD_LOCKS = True

#: How many checks may be inside of one another on a thread. Each takes up to six frames of Python's
#: 1,000, interpreted.
DEEPEST = 20

#: Whether `hide` hides anything.
HIDES = False

#: What `clamp` cuts at: sums of two such numbers fit 64 bits.
LIMIT = 2**62 - 1

#: The longest delay a timer takes: 10,000 years. Far beyond use, and every sum with it still fits
#: 64 bits.
MAX_DELAY_MS = 10_000 * 31_557_600_000

#: The threads that are inside of a lock.
_inside: set[int] = set()


class CoreLock:
    """A lock for a handful of loads and stores.

    No thread ever holds two. So one that asks for a second was interrupted inside of the first, by
    a signal handler or a finalizer of the collector's: it would wait for itself, or find a change
    half done, and is refused. Compiled, neither can come between.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self) -> None:
        """Wait for the lock.

        Raises:
            InterruptedUseError: this thread was interrupted inside of a lock.
        """
        thread = get_ident()
        if thread in _inside:
            raise InterruptedUseError
        _inside.add(thread)
        self._lock.acquire()

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()
        _inside.discard(get_ident())


# Held for a handful of loads and stores and never while anything else is called, so objects can
# share them: 64 keep threads apart, and cost an object nothing. (A lock of its own costs 100
# bytes.)
_LOCKS = tuple(CoreLock() for _ in range(64))


def lock(thing: object) -> None:
    """Take the lock, shared with other objects, that guards this object's own fields."""
    _LOCKS[id(thing) >> 5 & 63].acquire()


def unlock(thing: object) -> None:
    """Give back what `lock` took."""
    _LOCKS[id(thing) >> 5 & 63].release()


def hold(lock: CoreLock) -> None:
    """Acquire a lock, one of several, for the time of a fork."""
    if get_ident() in _inside:
        raise InterruptedUseError
    lock._lock.acquire()


def let_go(lock: CoreLock) -> None:
    """Release what `hold` acquired."""
    lock._lock.release()


def renew_locks() -> None:
    """Make the locks of `lock` free in a forked child, where who held one is no more."""
    global _LOCKS
    _LOCKS = tuple(CoreLock() for _ in _LOCKS)
    _inside.clear()


def hide(thing: object) -> None:
    """Keep an object from the cyclic collector until its next full collection (compiled.

    `collector.pyx`).
    """


def show(thing: object) -> None:
    """End what `hide` began."""


def thread_mark() -> int:
    """Return a number that tells this thread from others that run now, in 32 bits."""
    return get_ident() >> 12 & 0xFFFFFFFF


class _Depth(threading.local):
    value = 0
    postponed = False


_depth = _Depth()


def deeper() -> int:
    """Count one more check that this thread is inside of; how many there are."""
    _depth.value += 1
    return _depth.value


def shallower() -> None:
    """Count one less."""
    _depth.value -= 1


def look_up(mapping: dict[Key, Value], key: Key) -> Value | None:
    """Return what a dict has for a key, or None, whatever other threads take out of it meanwhile."""
    return mapping.get(key)


def set_postponed(value: bool) -> None:
    """Note whether this thread has checks to make that came too deep."""
    _depth.postponed = value


def has_postponed() -> bool:
    """Return what `set_postponed` noted."""
    return _depth.postponed


def clamp(number: int) -> int:
    """`number`, or what is nearest to it between -LIMIT and LIMIT."""
    return max(-LIMIT, min(number, LIMIT))


def floor_ms(ns: int) -> int:
    """Nanoseconds as whole milliseconds, rounded down."""
    return ns // 1_000_000


def ceil_ms(ns: int) -> int:
    """Nanoseconds as whole milliseconds, rounded up."""
    return -(-ns // 1_000_000)


def whole_ms(seconds: float) -> int:
    """The milliseconds that have passed after so many seconds; of what 64 bits can hold."""
    return int(seconds * 1000)


def bit_length(number: int) -> int:
    """Bits of a number that is not negative; 0 for 0."""
    return number.bit_length()
