"""What Spark says on the console and nobody needs."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

#: Java's word on a flag that Spark's launcher sets, and what the helper process of a stateful query
#: prints at each start of one.
_NOISE = re.compile(
    rb"WARNING: Using incubator modules: |(Starting )?Streaming TransformWithState\w* Python worker\b"
)
_STDERR = 2


@contextmanager
def without_noise() -> Iterator[None]:
    """What processes that are started in the block write to stderr, Spark's JVM above all, is passed on without noise.

    This process's own stderr goes the same way within the block, and not afterwards.
    """
    readable, writable = os.pipe()
    stderr = os.dup(_STDERR)
    os.dup2(writable, _STDERR)
    os.close(writable)
    reader = threading.Thread(
        target=_pass_on, args=(readable, os.dup(stderr)), name="spark-stderr", daemon=True
    )
    reader.start()
    failed = True
    try:
        yield
        failed = False
    finally:
        os.dup2(stderr, _STDERR)
        os.close(stderr)
        if failed:
            # What it was is told there, and comes before what is said of it.
            reader.join(1)


def _pass_on(readable: int, stderr: int) -> None:
    dropped = False
    with os.fdopen(readable, "rb") as lines, os.fdopen(stderr, "wb", buffering=0) as passed:
        for line in lines:
            # Some of them end with an empty line.
            dropped = _NOISE.match(line) is not None or (dropped and not line.strip())
            if not dropped:
                passed.write(line)


def quiet_interrupts() -> None:
    """Let Ctrl-C in a call to the JVM be told by its exception alone.

    Py4j logs its traceback, too.
    """
    root = logging.getLogger()
    if _is_no_interrupt not in root.filters:
        root.addFilter(_is_no_interrupt)


def hush(spark: SparkSession) -> None:
    """Let Spark log nothing any more.

    Of work that is stopped in the middle, it logs all that breaks off.
    """
    context = getattr(spark, "sparkContext", None)
    if context is not None:  # Connect's server logs on its own console.
        context.setLogLevel("OFF")


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return record.msg != "KeyboardInterrupt while sending command."
