"""Forks while all threads are at work: the child uses what it has inherited for a moment."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Sequence
from typing import Any

from benchmarks.soak.choices import LONG_MS
from benchmarks.soak.probe import COMPLETE, Event, Probe, TimedProbe
from benchmarks.soak.world import World
from request_purgatory import PurgatoryClosedError, TimerClosedError

#: Seconds that a child may take; it is killed then.
_CHILD_S = 60
_FAILED = 99
_WRONG = {
    2: "num_delayed of the inherited purgatory is not 0",
    3: "the inherited purgatory's watcher lists are not empty",
    4: "an inherited operation is still pending",
    5: "an inherited operation was cancelled, and answered",
    6: "a new operation did not complete",
    7: "a new operation did not expire: nobody advances the clock",
    8: "the inherited timer did not run a new task",
    9: "the inherited asyncio purgatory did not refuse",
    10: "shutdown found an operation pending",
    _FAILED: "an exception",
}


def fork_and_use(world: World, pending: Sequence[Any]) -> str | None:
    """Fork, and let the child use the round's purgatory; what went wrong there.

    Args:
        world: The round's.
        pending: Operations that were pending a moment ago, of the thread that forks.
    """
    child = os.fork()
    if child == 0:
        status = _FAILED
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_CHILD_S)
            status = _use(world, pending)
        except (PurgatoryClosedError, TimerClosedError):
            status = 0  # Another thread had shut one of them down.
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _child, waited = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(waited)
    if code < 0:
        return f"the child of a fork ended by signal {-code}"
    return f"in the child of a fork: {_WRONG[code]}" if code else None


def _use(world: World, pending: Sequence[Any]) -> int:
    purgatory = world.purgatory
    if world.aio is not None:
        try:
            world.aio.hold(["fork"], until=lambda: False, timeout=1)
        except RuntimeError:
            pass
        else:
            return 9
    if purgatory.is_closed:
        return 0
    if purgatory.num_delayed:
        return 2
    if purgatory.watched:
        return 3
    for op in pending:
        if op.outcome is None:
            return 4
        if op.outcome == "cancelled" and not {"1", "2"}.isdisjoint(f"{op.calls:o}"):
            return 5
    probe = _probe(Probe(LONG_MS))
    purgatory.try_complete_else_watch(probe, ["fork"])
    probe.event.count += 1
    if purgatory.check_and_complete("fork") != 1 or probe.calls != COMPLETE:
        return 6
    if world.executor is None:
        if not _expires(world):
            return 7
        if not _runs(world):
            return 8
    return 10 if purgatory.shutdown() else 0


def _probe(probe: Probe) -> Probe:
    probe.calls = 0
    probe.event = Event()
    probe.need = 1
    return probe


def _expires(world: World) -> bool:
    probe = TimedProbe(3)
    _probe(probe)
    probe.clock = world.clock
    probe.due_ns = world.clock.now_ns + 3_000_000
    world.purgatory.try_complete_else_watch(probe, ["fork"])
    give_up = time.monotonic() + _CHILD_S / 3
    while not probe.is_completed and time.monotonic() < give_up:
        if world.manual is not None:
            world.manual.advance(1)
        if not world.reaper:
            world.purgatory.advance_clock(0)
        time.sleep(0.001)
    return probe.outcome == "expired"


def _runs(world: World) -> bool:
    ran: list[int] = []
    world.timer.call_later(1, ran.append, 1)
    give_up = time.monotonic() + _CHILD_S / 3
    while not ran and time.monotonic() < give_up:
        if world.manual is not None:
            world.manual.advance(1)
        world.timer.advance_clock(0)
        time.sleep(0.001)
    return bool(ran)
