"""What a thread of the campaign does with the round's bare timer."""

from __future__ import annotations

from typing import Any

from benchmarks.soak.choices import LONG_MS, SHORT_MS, Choices
from benchmarks.soak.probe import CountedTask, Fault
from benchmarks.soak.world import World

#: Handles of one burst.
_BURST = 100


class TimerUser:
    """Makes handles and tasks, and cancels some; only its own thread does, and whoever advances the timer runs them.

    Attributes:
        handles: of `SystemTimer.call_later`, by number; `ran` and `called_off` have the numbers of
            those that did.
        early: numbers of handles that ran before their time.
        tasks: that were added, some of them several times.
    """

    def __init__(self, choices: Choices) -> None:
        self._short = choices.among(SHORT_MS)
        self._backs = choices.among(range(1, 60))

    def begin(self, world: World) -> None:
        """Forget the last round."""
        self.world = world
        self.timer = world.timer
        self._later = world.timer.call_later
        self.handles: list[Any] = []
        self.ran: list[int] = []
        self.called_off: list[int] = []
        self.early: list[int] = []
        self.tasks: list[CountedTask] = []
        self._ran = self.ran.append

    def forget(self) -> None:
        """Drop all of the round, so that the memory can be looked at."""
        for name in ("world", "timer", "_later", "_ran"):
            self.__dict__.pop(name, None)
        lists: tuple[list[Any], ...] = (
            self.handles,
            self.ran,
            self.called_off,
            self.early,
            self.tasks,
        )
        for gone in lists:
            gone.clear()

    def call_later(self) -> None:
        self.handles.append(self._later(next(self._short) or LONG_MS, self._ran, len(self.handles)))

    def call_off(self) -> None:
        number = len(self.handles) - next(self._backs)
        if number >= 0 and self.handles[number].cancel():
            self.called_off.append(number)

    def burst(self) -> None:
        """Set many at once, and call them off, as a server does whose requests are all answered in time."""
        handles = self.handles
        later, ran, called_off = self._later, self._ran, self.called_off.append
        first = len(handles)
        for number in range(first, first + _BURST):
            handles.append(later(LONG_MS, ran, number))
        for number in range(first, first + _BURST):
            if handles[number].cancel():
                called_off(number)

    def call_later_checked(self) -> None:
        delay_ms = next(self._short)
        due_ns = self.world.clock.now_ns + delay_ms * 1_000_000
        self.handles.append(
            self._later(delay_ms, self.note_due, self.world.clock, len(self.handles), due_ns)
        )

    def note_due(self, clock: Any, number: int, due_ns: int) -> None:
        """A handle's callback."""
        self.ran.append(number)
        if clock.now_ns < due_ns:
            self.early.append(number)

    def call_later_faulty(self) -> None:
        self.handles.append(self._later(next(self._short), self.note_and_raise, len(self.handles)))

    def note_and_raise(self, number: int) -> None:
        """A handle's callback."""
        self.ran.append(number)
        raise Fault

    def add_task(self) -> None:
        task = CountedTask(next(self._short), self.world.clock)
        task.adds = 1
        self.tasks.append(task)
        try:
            self.timer.add(task)
        except BaseException:
            task.adds = 0
            raise

    def move_task(self) -> None:
        if self.tasks:
            task = self.tasks[-min(next(self._backs), len(self.tasks))]
            self.timer.add(task)
            task.adds += 1

    def cancel_task(self) -> None:
        if self.tasks:
            task = self.tasks[-min(next(self._backs), len(self.tasks))]
            if task.cancel():
                task.offs += 1
