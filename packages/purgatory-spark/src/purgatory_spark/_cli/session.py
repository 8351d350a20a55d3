"""The Spark session of a command."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from pyspark.sql import SparkSession

from purgatory_spark._spark import console_filter
from purgatory_spark._spark.session import create_session

SessionFactory = Callable[[], SparkSession]


#: Workloads of up to so many requests are small.
SMALL_REQUESTS = 200_000


@contextmanager
def open_session(
    create: SessionFactory | None = None, *, small: bool = False
) -> Iterator[SparkSession]:
    """Open a session for a block; it stops with the block, also where Ctrl-C ends the block.

    `small`: whether what it is for is small, so that it has to start quickly.
    """
    verbose = logging.getLogger().isEnabledFor(logging.DEBUG)
    if not verbose:
        console_filter.silence_py4j()
    with nullcontext() if verbose else console_filter.without_noise():
        session = create() if create is not None else create_session(small=small)
    if not verbose:
        console_filter.silence_lost_jvm(session)
    if threading.current_thread() is threading.main_thread():
        # Spark's own handler calls the JVM in the middle of other calls. Jobs are cancelled when
        # the session stops.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield session
    except KeyboardInterrupt:
        # The interrupted call may have broken the connection to the JVM, which ends with this
        # process in any case.
        with suppress(Exception):
            if not verbose:
                console_filter.silence_spark(session)
            session.stop()
        raise
    except BaseException:
        session.stop()
        raise
    session.stop()
