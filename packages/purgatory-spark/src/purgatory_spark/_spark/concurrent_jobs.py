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
def concurrent_jobs(spark: SparkSession) -> Iterator[StartStep]:
    """Yield a function that starts steps, which have ended when the block has.

    Their jobs have the names of this thread's. If a step or the block fails, the others' jobs are
    cancelled, and the first error is raised.
    """
    tag = f"request-purgatory-{uuid4()}"
    steps: list[Future[Any]] = []
    pool = ThreadPoolExecutor(_AT_ONCE)

    def start(step: Callable[..., _R], *args: Any) -> Future[_R]:
        with_names = cast(Any, inheritable_thread_target(spark))(step)
        steps.append(pool.submit(with_names, *args))
        return steps[-1]

    # Tags of a classic session are those of one thread.
    context: Any = getattr(spark, "sparkContext", None)
    (spark.addTag if context is None else context.addJobTag)(tag)
    try:
        yield start
        for step in steps:
            step.result()
    except BaseException:
        for step in steps:
            step.cancel()
        # Again and again, as a step may be about to start its next job.
        while wait(steps, _CANCEL_EVERY_S).not_done:
            # Without the JVM there is nothing to cancel, and the steps fail.
            with suppress(Exception):
                (spark.interruptTag if context is None else context.cancelJobsWithTag)(tag)
        raise
    finally:
        pool.shutdown()
        with suppress(Exception):
            (spark.removeTag if context is None else context.removeJobTag)(tag)
