"""The threads in which functions given to `intercept` wait, by `asyncio.to_thread`."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from typing import Any, ParamSpec, TypeVar

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds for calls to end once the cluster has stopped.
_TIMEOUT = 1.0


class FunctionThreads(ThreadPoolExecutor):
    """The default executor of a cluster's own event loop: each call has a daemon thread.

    A call may wait for what a failed test does not do any more. Neither other calls nor the end of
    the cluster or of the interpreter wait for it, as they do for the threads of a pool.
    """

    def __init__(self) -> None:
        super().__init__()
        #: What runs, by thread.
        self._running: dict[threading.Thread, Callable[..., Any]] = {}

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                _set_outcome(future, functools.partial(function, *args, **kwargs))
            finally:
                del self._running[thread]

        thread = threading.Thread(target=run, name="purgatory-cluster-function", daemon=True)
        self._running[thread] = function
        try:
            thread.start()
        except BaseException:  # The system has no thread for it.
            del self._running[thread]
            raise
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        if not wait:
            return
        until = time.monotonic() + _TIMEOUT
        for thread, function in self._running.copy().items():
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                held: object = function
                if isinstance(function, functools.partial) and isinstance(
                    getattr(function.func, "__self__", None), Context
                ):
                    held = function.args[0]
                logger.warning("a thread of a function given to intercept did not end: %r", held)


def _set_outcome(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
        del future  # The traceback has this frame.
    else:
        future.set_result(result)
