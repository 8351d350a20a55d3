"""Executors that fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from request_purgatory import TimerTask


class FailingExecutor(Executor):
    """Refuses now and then, and may be shut down with work in its queue, which it drops.

    Attributes:
        submitted: the timer's tasks and the futures that stand for their runs.
    """

    def __init__(self, *, refuse_every: int = 0) -> None:
        """`refuse_every`: each so-many-th `submit` raises; 0 refuses nothing until `cut`."""
        self._pool = ThreadPoolExecutor(2, "soak-executor")
        self._refuse_every = refuse_every
        self._count = 0
        self._lock = threading.Lock()
        self.submitted: list[tuple[TimerTask, Future[Any]]] = []
        self.refused = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` on a thread of the pool, or raise."""
        with self._lock:
            self._count += 1
            refuses = self._refuse_every and self._count % self._refuse_every == 0
        if refuses:
            self.refused += 1
            # Not only RuntimeError: an executor with a bounded queue raises what it likes.
            raise (RuntimeError if self._count % 2 else LookupError)("the queue is full")
        future = self._pool.submit(fn, *args, **kwargs)
        self.submitted.append((args[0], future))
        return future

    def cut(self) -> None:
        """Drop what is queued, and refuse whatever comes."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def finish(self) -> None:
        """Wait for what is queued, and end the threads."""
        self._pool.shutdown(wait=True)

    def dropped(self) -> list[TimerTask]:
        """Return the tasks that were accepted and never ran."""
        return [task for task, future in self.submitted if future.cancelled()]
