"""Run steps with Spark jobs at the same time, in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar, cast
from uuid import uuid4

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

_R = TypeVar("_R")

#: Planning a small job takes as long as its tasks. With more at once, those of large jobs would
#: compete for memory.
_AT_ONCE = 2

_CANCEL_EVERY_S = 0.2


class StartStep(Protocol):
    """Start a function in a thread, in the order of the calls."""

    def __call__(self, step: Callable[..., _R], *args: Any) -> Future[_R]: ...


@contextmanager
def concurrent_jobs(spark: SparkSession, at_once: int = _AT_ONCE) -> Iterator[StartStep]:
    """Yield a function that starts steps, which have ended when the block has.

    Their jobs have the names of this thread's. If a step or the block fails, all other jobs are
    cancelled, also those of the block, and the first error is raised.

    `at_once`: how many steps run at the same time.
    """
    tag = f"request-purgatory-{uuid4()}"
    steps: list[Future[Any]] = []
    failures: list[BaseException] = []
    pool = ThreadPoolExecutor(at_once)
    # Tags of a classic session are those of one thread.
    context: Any = getattr(spark, "sparkContext", None)

    def cancel_jobs() -> None:
        # Without the JVM there is nothing to cancel, and the steps fail.
        with suppress(Exception):
            (spark.interruptTag if context is None else context.cancelJobsWithTag)(tag)

    def note(step: Future[Any]) -> None:
        if not step.cancelled() and (error := step.exception()) is not None:
            failures.append(error)
            cancel_jobs()

    def start(step: Callable[..., _R], *args: Any) -> Future[_R]:
        with_names = cast(Any, inheritable_thread_target(spark))(step)
        started: Future[_R] = pool.submit(with_names, *args)
        started.add_done_callback(note)
        steps.append(started)
        return started

    (spark.addTag if context is None else context.addJobTag)(tag)
    try:
        yield start
        for step in steps:
            step.result()
    except BaseException as error:
        failures.append(error)
        for step in steps:
            step.cancel()
        # Again and again, as a step may be about to start its next job.
        while wait(steps, _CANCEL_EVERY_S).not_done:
            cancel_jobs()
        if not isinstance(error, Exception) or failures[0] is error:
            raise
        raise failures[0] from None
    finally:
        pool.shutdown()
        with suppress(Exception):
            (spark.removeTag if context is None else context.removeJobTag)(tag)
