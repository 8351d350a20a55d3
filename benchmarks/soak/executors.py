"""An executor that fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from request_purgatory import TimerTask


class FailingExecutor(Executor):
    """A thread pool that rejects some tasks, and can drop its queue when it shuts down.

    Attributes:
        submitted: The accepted tasks of the timer, with their futures.
        refused: Number of rejected tasks.
    """

    def __init__(self, *, refuse_every: int = 0) -> None:
        """Every `refuse_every`-th call of `submit` raises; 0 rejects nothing until the shutdown."""
        self._pool = ThreadPoolExecutor(2, "soak-executor")
        self._refuse_every = refuse_every
        self._count = 0
        self._lock = threading.Lock()
        self.submitted: list[tuple[TimerTask, Future[Any]]] = []
        self.refused = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` on a thread of the pool, or raise RuntimeError or LookupError."""
        with self._lock:
            self._count += 1
            refuses = self._refuse_every and self._count % self._refuse_every == 0
        if refuses:
            self.refused += 1
            # Executors with a bounded queue raise various exceptions.
            raise (RuntimeError if self._count % 2 else LookupError)("the queue is full")
        future = self._pool.submit(fn, *args, **kwargs)
        self.submitted.append((args[0], future))
        return future

    def shutdown_now(self) -> None:
        """Drop the queued tasks, and reject all further ones."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def shutdown_and_wait(self) -> None:
        """Wait for the queued tasks, and end the threads."""
        self._pool.shutdown(wait=True)

    def dropped(self) -> list[TimerTask]:
        """Return the accepted tasks that never ran."""
        return [task for task, future in self.submitted if future.cancelled()]
