"""The primitives that differ between the two builds; this is the interpreted version.

The core is one source in plain Python, which Cython compiles unchanged. Then `primitives.pyx` takes
the place of this module. Under the GIL, C needs no further lock for a few loads and stores, and it
reads the clock without a call into Python. All other modules have one text for both builds.
"""

from __future__ import annotations

import sys
import threading
from array import array
from contextlib import suppress
from threading import get_ident
from time import monotonic_ns
from types import CodeType, FrameType
from typing import Any, TypeVar

from request_purgatory.errors import InterruptedUseError, NotInitializedError

Key = TypeVar("Key")
Value = TypeVar("Value")

__all__ = [
    "COMPILED",
    "FORKS_HOLD_LOCKS",
    "HOLDS_GIL",
    "LIMIT",
    "MAX_CHECK_DEPTH",
    "MAX_DELAY_MS",
    "CoreLock",
    "acquire_for_fork",
    "bit_length",
    "borrow_levels",
    "call_on_complete",
    "call_on_expiration",
    "call_run",
    "ceil_ms",
    "check_depth",
    "clamp",
    "count_at",
    "dict_get",
    "enter_check",
    "floor_ms",
    "has_postponed",
    "is_made_slowly",
    "is_shared",
    "leave_check",
    "lock_object",
    "monotonic_ns",
    "number_at",
    "reinit_locks",
    "release_after_fork",
    "require_init",
    "return_levels",
    "seconds_to_ms",
    "set_number",
    "set_postponed",
    "take_error",
    "thread_tag",
    "try_complete",
    "unlock_object",
    "wrappers",
    "zeros",
]

COMPILED = False

#: True if another thread may hold a lock, half way through a change, during a fork.
FORKS_HOLD_LOCKS = True

#: The largest number of nested checks on a thread. Interpreted, each takes up to six of the 1,000
#: frames of Python's recursion limit.
MAX_CHECK_DEPTH = 20

#: True if no other thread runs between two statements that call nothing.
HOLDS_GIL = False

#: The bound of `clamp`: the sum of two such numbers fits 64 bits.
LIMIT = 2**62 - 1

#: The longest delay a timer takes: 10,000 years. Every sum with it fits 64 bits.
MAX_DELAY_MS = 10_000 * 31_557_600_000


class _Hold:
    """A thread's acquisition of a CoreLock, from before it waits until after it releases.

    Attributes:
        lock: The lock.
        frame: That of the function that changes something under the lock.
    """

    __slots__ = ("frame", "lock")

    def __init__(self, lock: Any, frame: FrameType | None) -> None:
        self.lock = lock
        while frame is not None and frame.f_code in wrappers:
            frame = frame.f_back
        self.frame = frame

    def give_up(self) -> None:
        """Release the lock if the function has ended by an exception of a signal handler.

        Raises:
            InterruptedUseError: This thread is still inside of the function.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame is self.frame:
                raise InterruptedUseError
            frame = frame.f_back
        with suppress(RuntimeError):  # It was still waiting for the lock.
            self.lock.release()


#: By thread, the acquisition of the CoreLock that it holds or waits for.
_holds: dict[int, _Hold] = {}

#: The code of functions that acquire a lock for their caller, and return.
wrappers: set[CodeType] = set()


class CoreLock:
    """A lock for a few loads and stores.

    No thread ever holds two. A thread that acquires a second one was interrupted while it held the
    first, by a signal handler or by a finalizer of the cyclic collector. It would deadlock, or see
    a change half done: `acquire` raises instead. A handler that raises ends the function that held
    the lock, which the thread's next `acquire` releases. The compiled build can't be interrupted
    there.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.RLock()  # It knows its owner, which `give_up` needs.

    def acquire(self) -> None:
        """Acquire the lock; wait until it is free.

        Raises:
            InterruptedUseError: This thread was interrupted while it held a CoreLock.
        """
        thread = get_ident()
        hold = _holds.get(thread)
        if hold is not None:
            hold.give_up()
        _holds[thread] = _Hold(self._lock, sys._getframe(1))
        self._lock.acquire()

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()
        _holds.pop(get_ident(), None)


# Locks that objects share, as each is held for a few loads and stores without any call. 64 keep
# threads apart and cost no memory per object. (A lock of its own costs an object 100 bytes.)
_LOCKS = tuple(CoreLock() for _ in range(64))


def lock_object(target: object) -> None:
    """Acquire the lock that guards the object's own fields; other objects share it."""
    _LOCKS[id(target) >> 5 & 63].acquire()


wrappers.add(lock_object.__code__)


def unlock_object(target: object) -> None:
    """Release the lock that `lock_object` acquired."""
    _LOCKS[id(target) >> 5 & 63].release()


def acquire_for_fork(lock: CoreLock) -> None:
    """Acquire a lock, one of several, for the time of a fork.

    Raises:
        InterruptedUseError: This thread was interrupted while it held a CoreLock.
    """
    hold = _holds.get(get_ident())
    if hold is not None:
        hold.give_up()
        del _holds[get_ident()]
    lock._lock.acquire()


def release_after_fork(lock: CoreLock) -> None:
    """Release a lock that `acquire_for_fork` acquired."""
    lock._lock.release()


def zeros(size: int) -> Any:
    """Return memory for numbers of 64 bits, which NumPy can look at; all are 0."""
    return array("q", [0]) * size


def number_at(numbers: Any, index: int) -> int:
    """Return the number at an index of what `zeros` returned; the index has to be valid."""
    number: int = numbers[index]
    return number


def count_at(numbers: Any, index: int) -> None:
    """Add 1 to the number at an index of what `zeros` returned; the index has to be valid."""
    numbers[index] += 1


def set_number(numbers: Any, index: int, number: int) -> None:
    """Set the number at an index of what `zeros` returned; the index has to be valid."""
    numbers[index] = number


def reinit_locks() -> None:
    """Replace the locks of `lock_object` in a forked child, where their holders don't exist."""
    global _LOCKS
    _LOCKS = tuple(CoreLock() for _ in _LOCKS)
    _holds.clear()


def thread_tag() -> int:
    """Return a 32-bit number that differs between threads that run at the same time."""
    return get_ident() >> 12 & 0xFFFFFFFF


class _Depth(threading.local):
    value = 0
    postponed = False


_depth = _Depth()


def enter_check() -> int:
    """Count a check that this thread enters.

    Returns:
        The number of nested checks on this thread, with the new one.
    """
    _depth.value += 1
    return _depth.value


def check_depth() -> int:
    """Return the number of nested checks on this thread."""
    return _depth.value


def leave_check() -> None:
    """Count a check that this thread leaves."""
    _depth.value -= 1


class _Raised(threading.local):
    error: BaseException | None = None


_raised = _Raised()


def try_complete(operation: Any) -> int:
    """Call `operation.try_complete()`; compiled, without a look-up for most classes.

    Returns:
        1 or 0, as the answer is true or not; -1 if it raised. Then `take_error` has to be the next
        call on this thread.
    """
    try:
        return 1 if operation.try_complete() else 0
    except BaseException as error:
        _raised.error = error
        return -1


def take_error() -> BaseException | None:
    """Return what the last `try_complete` on this thread raised, once."""
    error, _raised.error = _raised.error, None
    return error


def call_on_complete(operation: Any) -> None:
    """Call `operation.on_complete()`; compiled, without a look-up for most classes."""
    operation.on_complete()


def call_on_expiration(operation: Any) -> None:
    """Call `operation.on_expiration()`; compiled, without a look-up for most classes."""
    operation.on_expiration()


def call_run(task: Any) -> None:
    """Call `task.run()`; compiled, without a look-up for most classes."""
    task.run()


def require_init(initialized: bool, target: object) -> None:
    """Check that an object's `__init__` has run.

    Raises:
        NotInitializedError: A subclass overrides `__init__` and does not call it, or goes on after
            it raised.
    """
    if not initialized:
        raise NotInitializedError(type(target).__name__)


def is_made_slowly(target: object) -> bool:  # noqa: ARG001 - interpreted, there is no other way
    """Return True if calls of the object's class could be made quicker; `construction.pyx`."""
    return False  # pragma: no cover - asked in the compiled build alone


def is_shared(target: object) -> bool:  # noqa: ARG001 - interpreted, there is no cheap answer
    """Return True if there may be references besides the one variable of the caller."""
    return True  # pragma: no cover - asked in the compiled build alone


def dict_get(mapping: dict[Key, Value], key: Key) -> Value | None:
    """Return `mapping.get(key)`, safe against other threads that change the dict.

    Returns:
        The value, or None.
    """
    return mapping.get(key)


def borrow_levels() -> bool:
    """Do nothing: compiled, it lends levels to a thread that is near its recursion limit.

    Returns:
        True if there is something to give back.
    """
    return False


def return_levels(borrowed: bool) -> None:
    """Give back what `borrow_levels` has lent."""


def set_postponed(value: bool) -> None:
    """Record whether this thread has postponed checks because they were nested too deep."""
    _depth.postponed = value


def has_postponed() -> bool:
    """Return the last value of `set_postponed` on this thread."""
    return _depth.postponed


def clamp(number: int) -> int:
    """Return `number`, limited to the range from -LIMIT to LIMIT."""
    return max(-LIMIT, min(number, LIMIT))


def floor_ms(ns: int) -> int:
    """Return nanoseconds as whole milliseconds, rounded down."""
    return ns // 1_000_000


def ceil_ms(ns: int) -> int:
    """Return nanoseconds as whole milliseconds, rounded up."""
    return -(-ns // 1_000_000)


def seconds_to_ms(seconds: float) -> int:
    """Return seconds as whole milliseconds, rounded towards 0; the result has to fit 64 bits."""
    return int(seconds * 1000)


def bit_length(number: int) -> int:
    """Return the number of bits of a number that is not negative; 0 for 0."""
    return number.bit_length()
