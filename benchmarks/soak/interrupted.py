"""The main thread of the campaign, which signal handlers interrupt with exceptions wherever it is."""

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
    note_quorum,
)
from benchmarks.soak.timer_user import TimerUser
from benchmarks.soak.worker import Worker
from benchmarks.soak.world import World

#: Steps between two moments at which the signal is asked for again.
_STEPS = 100
#: Code that a handler finds interrupted, and whose operation is excused from noting that call.
_CALLBACKS = {
    method.__code__
    for kind in (Probe, TimedProbe, FaultyProbe, ChainedProbe, QuorumProbe)
    for name in ("on_complete", "on_expiration", "on_cancellation")
    if (method := kind.__dict__.get(name)) is not None
} | {note_quorum.__code__}
#: Code that can't be interrupted: it notes what nobody would know otherwise.
_PROTECTED = {
    TimerUser.note_due.__code__,
    TimerUser.note_and_raise.__code__,
    CountedTask.run.__code__,
    CountedTask.drop.__code__,
}


class Interrupted(Exception):  # noqa: N818 - as KeyboardInterrupt, no error of the program's
    """What a handler raises; every other one raises KeyboardInterrupt."""


class InterruptedWorker(Worker):
    """A worker on the main thread.

    Its lists have holes where it was interrupted between a call and the note of it.

    Attributes:
        interrupts: how many handlers have raised; `interrupts_in_round` is since the round's begin.
        holes: numbers of handles of which it is not known how they ended.
    """

    def __init__(self, number: int, seed: int, keys: Keys, loop_keys: Keys) -> None:
        super().__init__(number, seed, keys, loop_keys, forks=False)
        self.interrupts = 0
        self.holes: set[int] = set()
        self._armed = False
        self._calling_off = -1
        self._pauses_s = self._choices.among((0.0002, 0.0005, 0.001, 0.003))
        self._all_keys = keys.keys

    def _actions(self) -> dict[Callable[[], object], float]:
        return {
            self.watch: 300,
            self.check: 200,
            self.watch_timed: 40,
            self.watch_faulty: 10,
            self.watch_chained: 10,
            self.force: 20,
            self.cancel: 20,
            self.discard: 10,
            self.cancel_for_key: 2,
            self.call_later: 100,
            self.call_later_checked: 10,
            self.call_off: 80,
            self.advance: 20,
            self.purge: 1,
            self.read: 1,
        }

    def begin(self, world: World) -> None:
        super().begin(world)
        self.interrupts_in_round = 0

    def forget(self) -> None:
        super().forget()
        self.holes.clear()

    def play(self, steps: int) -> None:
        """Do that many steps, and be interrupted again and again."""
        before = signal.signal(signal.SIGALRM, self._interrupt)
        try:
            for _ in range(0, steps, _STEPS):
                if self.world.purgatory.is_closed:
                    break
                self._play_interrupted()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        # What an interrupted check has left out.
        for key in self._all_keys:
            self.purgatory.check_and_complete(key)

    def _play_interrupted(self) -> None:
        acts = islice(self._acts, _STEPS)
        pause_s = next(self._pauses_s)
        try:
            self._armed = True
            # Of real time: that of processor time has the resolution of the scheduler's tick, 4 ms.
            signal.setitimer(signal.ITIMER_REAL, pause_s)
            self._go(acts)
            self._armed = False
        except (Interrupted, KeyboardInterrupt):
            self._armed = False
            self._mend()

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        if not self._armed:
            return
        callback = None
        inner = frame
        while frame is not None and frame.f_code is not _PLAY:
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
        # At once: the rest of the steps, and what mends the lists, are not interrupted.
        self._armed = False
        self.interrupts += 1
        self.interrupts_in_round += 1
        raise Interrupted if self.interrupts % 2 else KeyboardInterrupt

    def _mend(self) -> None:
        # The last operation may not have entered, or been refused without a note of that: it ends
        # here if it has not yet.
        if self.probes:
            self.refuse()
            try:
                self.refused[-1].cancel()
            except Fault:
                self.caught += 1
        # A handle that was made, and not noted: its number is used up.
        self.holes.add(len(self.handles))
        self.handles.append(None)
        if self._calling_off >= 0:
            self.holes.add(self._calling_off)
            self._calling_off = -1

    def call_off(self) -> None:
        number = len(self.handles) - next(self._backs)
        if number >= 0 and self.handles[number] is not None:
            self._calling_off = number
            if self.handles[number].cancel():
                self.called_off.append(number)
            self._calling_off = -1


_PLAY = InterruptedWorker._play_interrupted.__code__
