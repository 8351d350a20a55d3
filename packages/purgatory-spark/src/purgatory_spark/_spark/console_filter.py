"""Keep output of Spark that no user needs off the console.

What Spark logs is limited by `log4j2.properties`. This module handles what is not logged by Spark:
lines that the JVM and a helper process print to stderr themselves, and Py4J's log in Python.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

#: No log setting reaches these lines. The JVM prints the first one for `--add-modules
#: jdk.incubator.vector`, which Spark's launcher always passes. The others are `print` calls in
#: PySpark's `transform_with_state_driver_worker.py`, which runs once per start of a stateful query.
_NOISE = re.compile(
    rb"WARNING: Using incubator modules: |"
    rb"(Starting )?Streaming TransformWithState\w* Python worker\b"
)
_STDERR = 2
_log = logging.getLogger(__name__)
#: Set while Spark is being stopped.
_stopping = threading.Event()


@contextmanager
def without_noise() -> Iterator[None]:
    """Drop known noise from the stderr of processes that are started in the block.

    The JVM inherits stderr, and PySpark's session builder can't give it another one. So stderr is
    a pipe while the block runs. A thread copies the other lines to the real stderr until the last
    process that inherited the pipe has ended. This process writes to the pipe within the block
    only.
    """
    _stopping.clear()
    readable, writable = os.pipe()
    stderr = os.dup(_STDERR)
    os.dup2(writable, _STDERR)
    os.close(writable)
    copier = threading.Thread(
        target=_copy_lines, args=(readable, os.dup(stderr)), name="spark-stderr", daemon=True
    )
    copier.start()
    failed = True
    try:
        yield
        failed = False
    finally:
        os.dup2(stderr, _STDERR)
        os.close(stderr)
        if failed:
            # The JVM's own message is printed before the error that the caller prints.
            copier.join(1)


def _copy_lines(readable: int, stderr: int) -> None:
    dropped = False
    with os.fdopen(readable, "rb") as lines, os.fdopen(stderr, "wb", buffering=0) as output:
        for line in lines:
            # An empty line may follow, as some of the `print` calls end with a line feed.
            dropped = _NOISE.match(line) is not None or (dropped and not line.strip())
            if not dropped and not _stopping.is_set():
                output.write(line)


def silence_py4j() -> None:
    """Keep Py4J from logging a traceback for a call that Ctrl-C or the JVM's end interrupts.

    The call raises its error all the same.
    """
    root = logging.getLogger()
    if _is_no_interrupted_call not in root.filters:
        root.addFilter(_is_no_interrupted_call)


def silence_lost_jvm(spark: SparkSession) -> None:
    """Keep PySpark from printing a traceback when the JVM ends during its connection.

    The JVM sends the accumulators of tasks over a connection that PySpark reads in a thread, and
    the end of it is printed there. The call that was under way raises an error of its own.
    """
    context = getattr(spark, "sparkContext", None)
    server: Any = getattr(context, "_accumulatorServer", None)
    if server is None:  # Spark Connect has none.
        return
    others = server.handle_error

    def handle_error(request: object, address: object) -> None:
        if isinstance(sys.exception(), (EOFError, ConnectionError)):
            _log.debug("The JVM's connection for accumulators has ended", exc_info=True)
        else:
            others(request, address)

    server.handle_error = handle_error


def silence_spark(spark: SparkSession) -> None:
    """Drop what Spark prints from now on, as it is being stopped.

    Spark logs an error for every task and query that a stop interrupts, and a Python worker that
    loses its connection prints a traceback. Spark Connect's server has a console of its own.
    """
    _stopping.set()
    context = getattr(spark, "sparkContext", None)
    if context is not None:
        context.setLogLevel("OFF")


def _is_no_interrupted_call(record: logging.LogRecord) -> bool:
    return record.msg not in (
        "KeyboardInterrupt while sending command.",
        "Exception while sending command.",
    )
