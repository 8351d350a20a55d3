"""What a child process that `os.fork` makes finds of its parent's timers and purgatories.

Of the parent's threads only the one that forked goes on in the child. So there nobody advances a
clock, sleeps, or will ever give back a lock. Whatever has locks or threads registers here, and
begins anew in each child. `logging`, `random` and `threading` do the same.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from request_purgatory._native import primitives


class Forkable(Protocol):
    """What has locks that a fork may find held."""

    def _fork_locks(self) -> Iterable[primitives.CoreLock]:
        """Return the locks under which the parts that a child looks at change."""
        ...

    def _renew_locks(self) -> None:
        """Take fresh locks, in a child."""
        ...

    def _begin_in_child(self) -> None:
        """Leave to the parent what is the parent's; everything in the child has fresh locks now."""
        ...


_forkables: set[weakref.ref[Any]] = set()
_one_at_a_time = threading.Lock()
_held: list[primitives.CoreLock] = []
_collects = False


def begin_anew_in_children(thing: Forkable) -> None:
    """Have `thing` begin anew in each process that is forked from this one, as long as it exists."""
    _forkables.add(weakref.ref(thing, _forkables.discard))


def _living() -> list[Forkable]:
    return [thing for reference in list(_forkables) if (thing := reference()) is not None]


def _before() -> None:
    global _collects
    if not primitives.FORKS_HOLD_LOCKS:
        return
    # A thread that is inside a lock would leave half a change to the child: it is waited for.
    # Nothing may start the collector until the locks are free, as finalizers are user code.
    _one_at_a_time.acquire()
    locks = [lock for thing in _living() for lock in thing._fork_locks()]
    _collects = gc.isenabled()
    gc.disable()
    for lock in locks:
        primitives.hold(lock)
    _held.extend(locks)


def _after_in_parent() -> None:
    if not primitives.FORKS_HOLD_LOCKS:
        return
    for lock in _held:
        primitives.let_go(lock)
    _end()


def _after_in_child() -> None:
    things = _living()
    for thing in things:
        thing._renew_locks()
    if primitives.FORKS_HOLD_LOCKS:
        _end()
    for thing in things:
        thing._begin_in_child()


def _end() -> None:
    _held.clear()
    if _collects:
        gc.enable()
    _one_at_a_time.release()


if hasattr(os, "register_at_fork"):  # Not on Windows, which does not fork.
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
