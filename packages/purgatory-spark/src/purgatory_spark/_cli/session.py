"""The Spark session of a command."""

from __future__ import annotations

import logging
import math
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from pyspark.sql import SparkSession

from purgatory_spark._spark import console_filter
from purgatory_spark._spark.session import create_session

SessionFactory = Callable[[], SparkSession]


#: Workloads of up to so many requests are small.
SMALL_REQUESTS = 200_000
#: Inputs of up to so many bytes are small: some hundred thousand rows.
_SMALL_BYTES = 16 * 2**20
#: Packed files have so many times as many.
_PACKED = 8
_PACKED_SUFFIXES = (".gz", ".bz2", ".parquet", ".orc", ".avro")


def are_small(*sources: str | Path | None) -> bool:
    """Return whether all sources are small files, or folders of them, of this machine."""
    return _total_bytes(sources) <= _SMALL_BYTES


def _total_bytes(sources: Iterable[str | Path | None]) -> float:
    total = 0.0
    for source in sources:
        if source is None:
            continue
        path = Path(str(source).partition(":")[2] if ":" in str(source) else source)
        if not path.exists():
            return math.inf
        for file in path.rglob("*") if path.is_dir() else [path]:
            packed = _PACKED if file.name.endswith(_PACKED_SUFFIXES) else 1
            total += file.stat().st_size * packed
            if total > _SMALL_BYTES:
                return math.inf
    return total


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
