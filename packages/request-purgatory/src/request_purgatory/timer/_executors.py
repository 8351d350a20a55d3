"""Executors that a timer was given, and the tasks on their way through one."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor

from request_purgatory._native.failsafe import warn
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.timer.task import TimerTask

logger = logging.getLogger("request_purgatory.timer.timer")

#: Executors whose tasks run where the timer's memory is not, by their modules. They are not
#: imported: an object of their class needs the module, too.
_ELSEWHERE = {
    "concurrent.futures.process": "ProcessPoolExecutor",
    "concurrent.futures.interpreter": "InterpreterPoolExecutor",
}


def check_executor(executor: Executor | None) -> None:
    """Raise InvalidArgumentError unless it has `submit`, and runs tasks in this process."""
    if executor is None:
        return
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise InvalidArgumentError("executor", "an Executor of concurrent.futures", executor)
    for module, name in _ELSEWHERE.items():
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(executor, kind):
            raise InvalidArgumentError(
                "executor",
                "one that runs tasks in this process, such as a ThreadPoolExecutor",
                executor,
            )


class Submission:
    """A call of a timer's task, which the executor and the timer may both try: the first makes it.

    Attributes:
        claimed: A lock that stays with the first who acquires it, and with it the task.
    """

    __slots__ = ("_run", "claimed", "task")

    def __init__(self, run: Callable[[Submission], object], task: TimerTask) -> None:
        self._run = run
        self.task = task
        self.claimed = threading.Lock()

    def __call__(self) -> None:
        self._run(self)


class ParentsExecutor:
    """Stands for an executor of the parent process in a forked child, which has not its threads.

    A thread pool goes on to accept tasks there, and runs none.
    """

    def __init__(self, name: str, executor: object) -> None:
        self._name = name
        self._executor = executor  # Kept: its end in the child is not ours to bring about.
        self._unwarned = threading.Lock()

    def submit(self, submission: Submission) -> None:
        """Run the task at once; warn the first time."""
        if self._unwarned.acquire(blocking=False):
            warn(
                logger,
                "timer %r: the executor belongs to the parent process, so tasks run on the "
                "clock's thread; make the timer or purgatory in this process to have one",
                self._name,
            )
        submission()
