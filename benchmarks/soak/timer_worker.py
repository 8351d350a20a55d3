"""The actions of a thread on the round's timer."""

from __future__ import annotations

from typing import Any

from benchmarks.soak.choices import LONG_MS, SHORT_MS, Choices
from benchmarks.soak.probe import CountedTask, Fault
from benchmarks.soak.round_state import RoundState

#: Handles of one burst.
_BURST = 100


class TimerWorker:
    """Makes handles and tasks of a timer, and cancels some of them.

    Only the worker's thread makes and cancels them. Any thread that advances the timer runs them.

    Attributes:
        handles: The handles of `SystemTimer.call_later_ms`, in order of their numbers.
        ran: The numbers of the handles that ran.
        cancelled_handles: The numbers of the handles that were cancelled.
        early: The numbers of the handles that ran before their time.
        tasks: The tasks that were added, some of them several times.
    """

    def __init__(self, choices: Choices) -> None:
        self._short = choices.among(SHORT_MS)
        self._offsets = choices.among(range(1, 60))

    def begin_round(self, state: RoundState) -> None:
        """Prepare for a round."""
        self.state = state
        self.timer = state.timer
        self._call_later = state.timer.call_later_ms
        self.handles: list[Any] = []
        self.ran: list[int] = []
        self.cancelled_handles: list[int] = []
        self.early: list[int] = []
        self.tasks: list[CountedTask] = []
        self._ran = self.ran.append

    def forget_round(self) -> None:
        """Drop all objects of the round, before the memory is sampled."""
        for name in ("state", "timer", "_call_later", "_ran"):
            self.__dict__.pop(name, None)
        lists: tuple[list[Any], ...] = (
            self.handles,
            self.ran,
            self.cancelled_handles,
            self.early,
            self.tasks,
        )
        for entries in lists:
            entries.clear()

    def call_later(self) -> None:
        self.handles.append(
            self._call_later(next(self._short) or LONG_MS, self._ran, len(self.handles))
        )

    def cancel_handle(self) -> None:
        number = len(self.handles) - next(self._offsets)
        if number >= 0 and self.handles[number].cancel():
            self.cancelled_handles.append(number)

    def burst(self) -> None:
        """Make and cancel many handles at once, as a server whose requests all complete in time."""
        handles = self.handles
        later, ran, cancelled_handles = self._call_later, self._ran, self.cancelled_handles.append
        first = len(handles)
        for number in range(first, first + _BURST):
            handles.append(later(LONG_MS, ran, number))
        for number in range(first, first + _BURST):
            if handles[number].cancel():
                cancelled_handles(number)

    def call_later_checked(self) -> None:
        delay_ms = next(self._short)
        due_ns = self.state.clock.now_ns + delay_ms * 1_000_000
        self.handles.append(
            self._call_later(delay_ms, self.record_run, self.state.clock, len(self.handles), due_ns)
        )

    def record_run(self, clock: Any, number: int, due_ns: int) -> None:
        """Record that a handle ran, as its callback."""
        self.ran.append(number)
        if clock.now_ns < due_ns:
            self.early.append(number)

    def call_later_faulty(self) -> None:
        self.handles.append(
            self._call_later(next(self._short), self.record_run_and_raise, len(self.handles))
        )

    def record_run_and_raise(self, number: int) -> None:
        """Record that a handle ran, as its callback, and raise."""
        self.ran.append(number)
        raise Fault

    def add_task(self) -> None:
        task = CountedTask(next(self._short), self.state.clock)
        task.adds = 1
        self.tasks.append(task)
        try:
            self.timer.add(task)
        except BaseException:
            task.adds = 0
            raise

    def move_task(self) -> None:
        if self.tasks:
            task = self.tasks[-min(next(self._offsets), len(self.tasks))]
            self.timer.add(task)
            task.adds += 1

    def cancel_task(self) -> None:
        if self.tasks:
            task = self.tasks[-min(next(self._offsets), len(self.tasks))]
            if task.cancel():
                task.cancels += 1
