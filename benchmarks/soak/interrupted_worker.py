"""The main thread of a campaign, which signal handlers interrupt with exceptions."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import islice
from types import FrameType

from benchmarks.soak.choices import Keys
from benchmarks.soak.probe import (
    INTERRUPTED,
    ChainedProbe,
    CountedTask,
    Fault,
    FaultyProbe,
    Probe,
    QuorumProbe,
    TimedProbe,
)
from benchmarks.soak.round_state import RoundState
from benchmarks.soak.timer_worker import TimerWorker
from benchmarks.soak.worker import Worker

#: Actions before the signal timer is set again.
_STEPS = 100
#: Callbacks of probes. One that is interrupted may not record itself, which is not an error.
_CALLBACKS = {
    method.__code__
    for kind in (Probe, TimedProbe, FaultyProbe, ChainedProbe, QuorumProbe)
    for name in ("on_complete", "on_expiration", "on_cancellation")
    if (method := kind.__dict__.get(name)) is not None
}
#: Functions that are not interrupted, because only they know what they record.
_PROTECTED = {
    TimerWorker.record_run.__code__,
    TimerWorker.record_run_and_raise.__code__,
    CountedTask.run.__code__,
    CountedTask.drop.__code__,
}


class Interrupted(Exception):  # noqa: N818 - named like KeyboardInterrupt
    """Raised by every second handler; the others raise KeyboardInterrupt."""


class InterruptedWorker(Worker):
    """A worker on the main thread.

    Its lists are incomplete where it was interrupted between a call and the record of the call.

    Attributes:
        interrupts: Number of handlers that raised.
        interrupts_in_round: Number of handlers that raised in this round.
        unknown_handles: Numbers of the handles that ended in an unknown way.
    """

    def __init__(self, number: int, seed: int, keys: Keys, loop_keys: Keys) -> None:
        super().__init__(number, seed, keys, loop_keys, forks=False)
        self.interrupts = 0
        self.unknown_handles: set[int] = set()
        self._armed = False
        self._cancelling = -1
        self._pauses_s = self._choices.among((0.0002, 0.0005, 0.001, 0.003))
        self._all_keys = keys.keys

    def _action_weights(self) -> dict[Callable[[], object], float]:
        return {
            self.watch: 300,
            self.check: 200,
            self.watch_timed: 40,
            self.watch_faulty: 10,
            self.watch_chained: 10,
            self.complete: 20,
            self.cancel: 20,
            self.discard: 10,
            self.cancel_for_key: 2,
            self.call_later: 100,
            self.call_later_checked: 10,
            self.cancel_handle: 80,
            self.advance: 20,
            self.purge: 1,
            self.read_metrics: 1,
        }

    def begin_round(self, state: RoundState) -> None:
        super().begin_round(state)
        self.interrupts_in_round = 0

    def forget_round(self) -> None:
        super().forget_round()
        self.unknown_handles.clear()

    def play(self, steps: int) -> None:
        """Do `steps` actions while signals interrupt the thread."""
        before = signal.signal(signal.SIGALRM, self._handle_signal)
        try:
            for _ in range(0, steps, _STEPS):
                if self.state.purgatory.is_closed:
                    break
                self.play_interruptible()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        # Repeat the checks that were interrupted.
        for key in self._all_keys:
            self.purgatory.check_and_complete(key)

    def play_interruptible(self) -> None:
        """Do some actions, the only ones that a handler may interrupt."""
        actions = islice(self._drawn_actions, _STEPS)
        pause_s = next(self._pauses_s)
        try:
            self._armed = True
            # Real time, as CPU time is measured in ticks of 4 ms.
            signal.setitimer(signal.ITIMER_REAL, pause_s)
            self._run_actions(actions)
            self._armed = False
        except (Interrupted, KeyboardInterrupt):
            self._armed = False
            self._repair_lists()

    def _handle_signal(self, _number: int, frame: FrameType | None) -> None:
        if not self._armed:
            return
        callback = None
        inner = frame
        while frame is not None and frame.f_code is not _INTERRUPTIBLE:
            code = frame.f_code
            if code in _PROTECTED or (
                code not in _CALLBACKS and __package__ not in frame.f_globals.get("__name__", "")
            ):
                return
            if callback is None and code in _CALLBACKS:
                callback = frame
            frame = frame.f_back
        if frame is None or inner is None:
            return
        if callback is not None:
            op = callback.f_locals[callback.f_code.co_varnames[0]]
            op.calls = op.calls << 3 | INTERRUPTED
        # The code that repairs the lists is not interrupted.
        self._armed = False
        self.interrupts += 1
        self.interrupts_in_round += 1
        raise Interrupted if self.interrupts % 2 else KeyboardInterrupt

    def _repair_lists(self) -> None:
        # The last operation may not have entered the purgatory, or been refused without a record.
        # It must end in any case.
        if self.probes:
            self.move_last_to_refused()
            try:
                self.refused[-1].cancel()
            except Fault:
                self.caught += 1
        # A handle may have been made without a record, and has this number.
        self.unknown_handles.add(len(self.handles))
        self.handles.append(None)
        if self._cancelling >= 0:
            self.unknown_handles.add(self._cancelling)
            self._cancelling = -1

    def cancel_handle(self) -> None:
        number = len(self.handles) - next(self._offsets)
        if number >= 0 and self.handles[number] is not None:
            self._cancelling = number
            if self.handles[number].cancel():
                self.cancelled_handles.append(number)
            self._cancelling = -1


#: The function whose callees may be interrupted.
_INTERRUPTIBLE = InterruptedWorker.play_interruptible.__code__
