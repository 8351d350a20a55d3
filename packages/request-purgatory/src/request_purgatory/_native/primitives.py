"""The primitives that differ between the two builds; this is the interpreted version.

The core is one source in plain Python, which Cython compiles unchanged. Then `primitives.pyx` takes
the place of this module. Under the GIL, C needs no further lock for a few loads and stores, and it
reads the clock without a call into Python. All other modules have one text for both builds.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, TypeVar

from request_purgatory.errors import InterruptedUseError, NotInitializedError

Key = TypeVar("Key")
Value = TypeVar("Value")

COMPILED = False

#: True if another thread may hold a lock, half way through a change, during a fork.
FORKS_HOLD_LOCKS = True

#: The largest number of nested checks on a thread. Interpreted, each takes up to six of the 1,000
#: frames of Python's recursion limit.
MAX_CHECK_DEPTH = 20

#: True if no other thread runs between two statements that call nothing.
HOLDS_GIL = False

#: How many threads count side by side, each under a lock of its own.
STRIPES = 1

#: The bound of `clamp`: the sum of two such numbers fits 64 bits.
LIMIT = 2**62 - 1

#: The longest delay a timer takes: 10,000 years. Every sum with it fits 64 bits.
MAX_DELAY_MS = 10_000 * 31_557_600_000


def thread_stripe() -> int:
    """Return in which of the `STRIPES` this thread counts."""
    return 0


def monotonic_ns(read: Callable[[], int] = time.monotonic_ns) -> int:
    # freezegun replaces a module's own names for the functions of `time`, not a default.
    return read()


class _Hold:
    """A thread's acquisition of a CoreLock, from before it waits until after it releases.

    `frame` is that of the function that changes something under the lock.
    """

    __slots__ = ("frame", "lock")

    def __init__(self, lock: Any, frame: FrameType | None) -> None:
        self.lock = lock
        while frame is not None and frame.f_code in wrappers:
            frame = frame.f_back
        self.frame = frame

    def give_up(self) -> None:
        """Release the lock if its function has ended by an exception; else InterruptedUseError."""
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
        """Wait for the lock; InterruptedUseError if this thread was interrupted holding one."""
        thread = get_ident()
        hold = _holds.get(thread)
        if hold is not None:
            hold.give_up()
        _holds[thread] = _Hold(self._lock, sys._getframe(1))
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()
        _holds.pop(get_ident(), None)


# Locks that objects share, as each is held for a few loads and stores without any call. 64 keep
# threads apart and cost no memory per object. (A lock of its own costs an object 100 bytes.)
_LOCKS = tuple(CoreLock() for _ in range(64))


def let_others_run() -> None:
    """Do nothing: compiled, it gives up the interpreter lock for a moment, as Python code does."""


def lock_object(target: object) -> None:
    """Acquire the lock that guards the object's own fields; other objects share it."""
    _LOCKS[id(target) >> 5 & 63].acquire()


wrappers.add(lock_object.__code__)


def unlock_object(target: object) -> None:
    _LOCKS[id(target) >> 5 & 63].release()


def acquire_for_fork(lock: CoreLock) -> None:
    """Acquire a lock, one of several, for the time of a fork."""
    hold = _holds.get(get_ident())
    if hold is not None:
        hold.give_up()
        del _holds[get_ident()]
    lock._lock.acquire()


def release_after_fork(lock: CoreLock) -> None:
    lock._lock.release()


def zeros(size: int) -> Any:
    """Return memory for numbers of 64 bits, which NumPy can look at; all are 0."""
    return array("q", [0]) * size


def number_at(numbers: Any, index: int) -> int:
    """Return the number at an index, which has to be valid here and below."""
    number: int = numbers[index]
    return number


def count_at(numbers: Any, index: int) -> None:
    numbers[index] += 1


def set_number(numbers: Any, index: int, number: int) -> None:
    numbers[index] = number


def reinit_locks() -> None:
    """Replace the locks of `lock_object` in a forked child, where their holders don't exist."""
    global _LOCKS
    _LOCKS = tuple(CoreLock() for _ in _LOCKS)
    _holds.clear()


def thread_tag() -> int:
    """Return a 32-bit number that differs between threads that run at the same time."""
    return get_ident() >> 12 & 0xFFFFFFFF


class _OfThread(threading.local):
    depth = 0
    postponed = False
    error: BaseException | None = None


_own = _OfThread()


def enter_check() -> int:
    """Return the number of nested checks on this thread, with the new one."""
    _own.depth += 1
    return _own.depth


def check_depth() -> int:
    return _own.depth


def leave_check() -> None:
    _own.depth -= _own.depth > 0  # After `forget_checks` it may be 0.


def forget_checks() -> None:
    """Begin anew in a forked child: the checks that the thread was in are the parent's."""
    _own.depth = 0
    _own.postponed = False


def try_complete(operation: Any) -> int:
    """Return whether the answer is true; -1 if it raised, and `take_error` is the next call."""
    try:
        return 1 if operation.try_complete() else 0
    except BaseException as error:
        _own.error = error
        return -1


def take_error() -> BaseException | None:
    """Return what the last `try_complete` on this thread raised, once."""
    error, _own.error = _own.error, None
    return error


def call_on_complete(operation: Any) -> None:
    operation.on_complete()


def call_on_expiration(operation: Any) -> None:
    operation.on_expiration()


def call_on_cancellation(operation: Any) -> None:
    operation.on_cancellation()


def call_run(task: Any) -> None:
    """Call `task.run()`; compiled, as the three before, without a look-up for most classes."""
    task.run()


def require_init(initialized: bool, target: object) -> None:
    """Raise NotInitializedError if a subclass's `__init__` did not call this package's."""
    if not initialized:
        raise NotInitializedError(type(target).__name__)


def guard_fields(kind: type) -> None:
    """Refuse that users' subclasses take a private field's name for an attribute of their own.

    Compiled, these are fields of C, and an attribute of the same name is another one.
    """
    names: set[str] = set()
    for base in kind.__mro__[:-1]:
        names.update(vars(base).get("__slots__", ()))
        names.update(vars(base)["__init__"].__code__.co_names if "__init__" in vars(base) else ())
    private = {name for name in names if name.startswith(("_", "node_"))}

    def set_field(self: object, name: str, value: object) -> None:
        if (
            name in private
            and not type(self).__module__.startswith("request_purgatory.")
            and not sys._getframe(1).f_globals["__name__"].startswith("request_purgatory.")
        ):
            raise AttributeError(
                f"the attribute {name!r} of {type(self).__name__!r} objects belongs to "
                "request_purgatory: give yours another name"
            )
        object.__setattr__(self, name, value)

    kind.__setattr__ = set_field  # type: ignore[method-assign, assignment]


def is_made_slowly(target: object) -> bool:  # noqa: ARG001 - interpreted, there is no other way
    """Return True if calls of the object's class could be made quicker; `construction.pyx`."""
    return False  # pragma: no cover - asked in the compiled build alone


def dict_get(mapping: dict[Key, Value], key: Key) -> Value | None:
    """Return `mapping.get(key)`, safe against other threads that change the dict."""
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
    _own.postponed = value


def has_postponed() -> bool:
    return _own.postponed


def clamp(number: int) -> int:
    return max(-LIMIT, min(number, LIMIT))


def floor_ms(ns: int) -> int:
    return ns // 1_000_000


def ceil_ms(ns: int) -> int:
    return -(-ns // 1_000_000)


def seconds_to_ms(seconds: float) -> int:
    """Return seconds as whole milliseconds, rounded towards 0; the result has to fit 64 bits."""
    return int(seconds * 1000)


def ceil_to_ms(seconds: float) -> int:
    """Return seconds as whole milliseconds, rounded up; the result has to fit 64 bits.

    2.007 * 1000 is 2007.0000000000002. Less than half a microsecond is not rounded up.
    """
    return math.ceil(seconds * 1000 - 0.0005)


def round_to_ns(seconds: float) -> int:
    """Return seconds as nanoseconds, rounded to microseconds; the result has to fit 64 bits."""
    return round(seconds * 1e6) * 1000


def bit_length(number: int) -> int:
    return number.bit_length()
