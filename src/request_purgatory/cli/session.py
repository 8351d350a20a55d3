"""What every command on Spark begins with: a session, and a console."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console


@contextmanager
def open_session(
    make: Callable[[], SparkSession] | None = None,
) -> Iterator[tuple[SparkSession, Console]]:
    """A session for a block, and a console beside it; the session ends with the block, also where the user breaks it off.

    Args:
        make: makes the session; `create_session` unless given.
    """
    from request_purgatory.pipeline.spark.console_filter import (
        hush,
        quiet_interrupts,
        without_noise,
    )
    from request_purgatory.pipeline.spark.session import create_session

    verbose = logging.getLogger().isEnabledFor(logging.DEBUG)
    if not verbose:
        quiet_interrupts()
    with nullcontext() if verbose else without_noise():
        session = (make or create_session)()
    if threading.current_thread() is threading.main_thread():
        # Spark's own handler calls the JVM in the middle of other calls. Jobs are cancelled when
        # the session stops.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield session, open_console()
    except KeyboardInterrupt:
        # The call that was broken off may have taken the connection with it. The JVM ends with this
        # process in any case.
        with suppress(Exception):
            if not verbose:
                hush(session)
            session.stop()
        raise
    except BaseException:
        session.stop()
        raise
    session.stop()


def open_console() -> Console:
    """Where commands tell what they do."""
    from rich.console import Console

    # A file or a pipe has no width: then the tables' own, instead of the 80 columns of a terminal
    # that nobody looks at.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)
