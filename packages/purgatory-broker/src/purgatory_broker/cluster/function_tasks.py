"""The tasks that functions given to `intercept` have started on a cluster's own event loop."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

logger = logging.getLogger(__name__)

TaskCoroutine: TypeAlias = Coroutine[Any, Any, Any] | Generator[Any, None, Any]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCall:
    """The call of a function, which knows what the end of its tasks means."""

    #: Whether the broker has still to respond to what the function has handed over.
    is_waiting_for_response: Callable[[], bool]
    #: Notes that a task was cancelled half way.
    task_cancelled: Callable[[], None]


#: The function that runs, or that has started what runs.
_call: ContextVar[FunctionCall | None] = ContextVar("_call", default=None)


@contextmanager
def tasks_of(call: FunctionCall | None) -> Iterator[None]:
    """Let the tasks that the block starts be a function's; None is the cluster itself."""
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)


class FunctionTasks:
    """The tasks of functions, until they have ended and somebody has seen what they have raised."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], FunctionCall] = {}
        #: Those that have failed. Once nobody refers to one, its loop reports it.
        self._failed: deque[weakref.ref[asyncio.Task[Any]]] = deque()

    def create(
        self, loop: asyncio.AbstractEventLoop, coroutine: TaskCoroutine, **options: Any
    ) -> asyncio.Task[Any]:
        """Create a task, as the loop's task factory."""
        task = asyncio.Task(coroutine, loop=loop, **options)
        context: Context | None = options.get("context")
        call = _call.get() if context is None else context.get(_call)
        if call is not None:
            self._running[task] = call
            # After the turn in which those who await it learn of its end.
            task.add_done_callback(lambda ended: loop.call_soon(self._note_end, ended))
        return task

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]
        if _is_unseen(task):
            self._failed.append(weakref.ref(task))

    async def cancel(self, timeout: float) -> None:
        """Cancel those that run, and wait until they have ended, for some seconds."""
        half_way = {
            task: call
            for task, call in self._running.items()
            if not (task.done() or call.is_waiting_for_response())
        }
        running = [task for task in self._running if not task.done()]
        if not running:
            return
        for task in running:
            task.cancel()
        _, stuck = await asyncio.wait(running, timeout=timeout)
        for task in stuck:
            logger.warning("a task of a function given to intercept did not end: %s", task)
        # One for each call, since a task that awaits another one is cancelled with it.
        for call in dict.fromkeys(call for task, call in half_way.items() if task.cancelled()):
            call.task_cancelled()

    def take_errors(self, is_over: Callable[[], bool]) -> Iterator[BaseException]:
        """Iterate over what tasks have raised and nobody has seen; any thread may call this.

        Each then counts as seen. `is_over` says that no function runs, which may yet look at its
        task.
        """
        while self._failed and not self._running and is_over():
            try:
                task = self._failed.popleft()()
            except IndexError:  # Another thread has taken the last one.
                return
            if task is not None and _is_unseen(task):
                error = task.exception()
                assert error is not None
                error.add_note("It was raised in a task of a function given to intercept.")
                yield error


def _is_unseen(task: asyncio.Task[Any]) -> bool:
    """Return whether a task that has ended would log its exception."""
    return not task.cancelled() and bool(getattr(task, "_log_traceback", False))
