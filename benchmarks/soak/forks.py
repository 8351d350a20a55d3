"""Forks while all threads are active: the child uses the inherited objects."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Sequence
from typing import Any

from benchmarks.soak.choices import LONG_MS
from benchmarks.soak.probe import COMPLETE, Event, Probe, TimedProbe
from benchmarks.soak.round_state import RoundState
from request_purgatory import PurgatoryClosedError, TimerClosedError

#: Time limit of a child in seconds.
_CHILD_S = 60
_EXCEPTION = 99
_PROBLEMS = {
    2: "num_delayed of the inherited purgatory is not 0",
    3: "the inherited purgatory's watcher lists are not empty",
    4: "an inherited operation is still pending",
    5: "an inherited operation was cancelled, and completed or expired",
    6: "a new operation did not complete",
    7: "a new operation did not expire",
    8: "the inherited timer did not run a new task",
    9: "the inherited asyncio purgatory accepted a request",
    10: "shutdown returned a pending operation",
    _EXCEPTION: "an exception was raised",
}


def use_in_fork(state: RoundState, pending: Sequence[Any]) -> str | None:
    """Fork, and use the round's purgatory and timer in the child.

    Args:
        state: The round's objects.
        pending: Operations of the forking thread that were pending a moment ago.

    Returns:
        The problem that the child found; None if it found none.
    """
    child = os.fork()
    if child == 0:
        status = _EXCEPTION
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_CHILD_S)
            status = _use_in_child(state, pending)
        except (PurgatoryClosedError, TimerClosedError):
            status = 0  # Another thread shut the purgatory or the timer down before the fork.
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _child, waited = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(waited)
    if code < 0:
        return f"the child of a fork ended by signal {-code}"
    return f"in the child of a fork: {_PROBLEMS[code]}" if code else None


def _use_in_child(state: RoundState, pending: Sequence[Any]) -> int:
    purgatory = state.purgatory
    if state.aio is not None:
        try:
            state.aio.hold(["fork"], until=lambda: False, timeout=1)
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
    probe = _prepare(Probe(LONG_MS))
    purgatory.try_complete_else_watch(probe, ["fork"])
    probe.event.count += 1
    if purgatory.check_and_complete("fork") != 1 or probe.calls != COMPLETE:
        return 6
    if state.executor is None:
        if not _new_operation_expires(state):
            return 7
        if not _new_task_runs(state):
            return 8
    return 10 if purgatory.close() else 0


def _prepare(probe: Probe) -> Probe:
    probe.calls = 0
    probe.event = Event()
    probe.need = 1
    return probe


def _new_operation_expires(state: RoundState) -> bool:
    probe = TimedProbe(3)
    _prepare(probe)
    probe.clock = state.clock
    probe.due_ns = state.clock.now_ns + 3_000_000
    state.purgatory.try_complete_else_watch(probe, ["fork"])
    deadline = time.monotonic() + _CHILD_S / 3
    while not probe.is_completed and time.monotonic() < deadline:
        if state.manual_clock is not None:
            state.manual_clock.advance(1)
        if not state.reaper:
            state.purgatory.advance_clock(0)
        time.sleep(0.001)
    return probe.outcome == "expired"


def _new_task_runs(state: RoundState) -> bool:
    ran: list[int] = []
    state.timer.call_later_ms(1, ran.append, 1)
    deadline = time.monotonic() + _CHILD_S / 3
    while not ran and time.monotonic() < deadline:
        if state.manual_clock is not None:
            state.manual_clock.advance(1)
        state.timer.advance_clock(0)
        time.sleep(0.001)
    return bool(ran)
