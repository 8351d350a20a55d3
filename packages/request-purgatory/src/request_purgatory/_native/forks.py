"""Resets timers and purgatories in child processes that `os.fork` creates.

Of the parent's threads, only the one that forked continues in the child. So in the child no thread
advances a clock, sleeps, or will ever release a lock that was held. Objects with locks or threads
register here and are reset in each child. `logging`, `random` and `threading` do the same.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from request_purgatory._native import primitives

T = TypeVar("T")


class Forkable(Protocol):
    """An object with locks that another thread may hold during a fork."""

    def _fork_locks(self) -> Iterable[primitives.CoreLock]:
        """Return the locks that guard the fields that a child reads; by default none."""
        return []

    def _reinit_locks(self) -> None:
        """Replace the object's locks, in a child; by default it has none."""
        return None  # noqa: RET501 - without a statement it would be abstract

    def _reset_in_child(self) -> None:
        """Drop what belongs to the parent; all objects in the child have new locks by now."""
        ...


class IdentityRef(weakref.ref[T]):
    """A weak reference that is equal to those of the same object only, whatever its class says."""

    __slots__ = ("_id",)

    def __init__(self, target: T, callback: Callable[[Any], object] | None = None) -> None:
        super().__init__(target, callback)  # type: ignore[call-arg]
        self._id = id(target)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, IdentityRef):
            return self is other
        target = self()
        return target is not None and target is other()

    def __ne__(self, other: object) -> bool:
        return not self == other


_forkables: set[IdentityRef[Any]] = set()
_shared_locks: list[Callable[[], None]] = []
_one_at_a_time = threading.Lock()
_held: list[primitives.CoreLock] = []
_gc_was_enabled = False


def register_for_forks(forkable: Forkable) -> None:
    """Reset `forkable` in each process that is forked from this one, for as long as it exists."""
    _forkables.add(IdentityRef(forkable, _forkables.discard))


def reinit_in_child(reinit: Callable[[], None]) -> None:
    """Call `reinit` in each child before anything is reset there, for locks that objects share."""
    _shared_locks.append(reinit)


def living(kind: type[T]) -> list[T]:
    """Return the registered objects of a class: all of this process that are alive.

    Registering costs every timer and purgatory the same anyway, so those who look for them - the
    metrics, a signal handler - need no registry of their own.
    """
    return [forkable for forkable in _living() if isinstance(forkable, kind)]


def _living() -> list[Forkable]:
    return [forkable for reference in list(_forkables) if (forkable := reference()) is not None]


def _before() -> None:
    global _gc_was_enabled
    if not primitives.FORKS_HOLD_LOCKS:
        return
    # Wait for threads that hold a lock: each would leave half a change to the child. The cyclic
    # collector stays off until the locks are released, as finalizers are user code.
    _one_at_a_time.acquire()
    locks = [lock for forkable in _living() for lock in forkable._fork_locks()]
    _gc_was_enabled = gc.isenabled()
    gc.disable()
    for lock in locks:
        primitives.acquire_for_fork(lock)
    _held.extend(locks)


def _after_in_parent() -> None:
    if not primitives.FORKS_HOLD_LOCKS:
        return
    for lock in _held:
        primitives.release_after_fork(lock)
    _end()


def _after_in_child() -> None:
    try:
        _reset_all()
    except (MemoryError, RuntimeError):  # A lock that finds no memory raises the latter.
        _reset_all()  # Nothing else would, and a reset may be made again.


def _reset_all() -> None:
    forkables = _living()
    for reinit in _shared_locks:
        reinit()
    for forkable in forkables:
        forkable._reinit_locks()
    if primitives.FORKS_HOLD_LOCKS and _one_at_a_time.locked():
        _end()
    for forkable in forkables:
        forkable._reset_in_child()


def _end() -> None:
    _held.clear()
    if _gc_was_enabled:
        gc.enable()
    _one_at_a_time.release()


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
