"""Requests that expire, as a stream on Spark: rows per second beside two usual solutions.

The join is Spark's stream-stream left outer join with watermarks on both sides: a request without
an event within its timeout has nulls. The timers are `transformWithState` (Row, its fastest Python
form for groups of two rows): the group is the watch key, the state is the request, and a timer is
at its deadline. All three run in a process with two cores. They read the same files in
micro-batches of one file of each kind, have the same settings of Spark and its state store, and
write Parquet. The written rows are checked against the expected ones. Rows are requests and events.
"Warm" excludes the first two batches, in which the JVM compiles and Python's workers start. CPU
time is of all batches, and of this process, the JVM and its Python workers.
"""

from __future__ import annotations

import logging
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks import peers
from benchmarks.question import Case
from benchmarks.stopwatch import tree_cpu_seconds
from benchmarks.stream_data import StreamData
from purgatory_spark._rows.schema import COMPLETED, EVENTS, EXPIRED, REQUESTS
from purgatory_spark._spark.session import (
    apply_stream_settings,
    create_session,
    local_checkpoint_settings,
)
from purgatory_spark._stream.endpoints.folders import OUTCOME_OPTIONS, FolderSource
from purgatory_spark._stream.progress import OBSERVED
from purgatory_spark.stream import StreamSettings, delayed_operations

QUESTION = "stream"
METRICS = {
    "warm_rows_per_second": "1/s",
    "rows_per_second": "1/s",
    "batch_seconds": "s",
    "cpu_seconds_per_million": "s",
    "state_bytes": "bytes",
    "checkpoint_bytes": "bytes",
    "worker_bytes": "bytes",
}
SIDES = (peers.OURS, peers.STREAM_JOIN, peers.STREAM_TIMERS)

#: Requests of the case that compares the join: enough for the JVM to compile its code.
COMPARED = 4_800_000
#: Requests of the case that compares all sides: a timer per request takes minutes where the others
#: take seconds.
_ALL_COMPARED = 240_000
#: Requests of cases that vary something else.
_REQUESTS = 2_400_000
# As many as cores.
_SHARDS = 2
_DELAY_MS = 1_000
_WARM_UP_BATCHES = 2


def cases(quick: bool) -> list[Case]:
    """Return the comparison, and cases with more requests, keys and pending ones for our side."""
    if quick:
        return [_case(40_000, 1_000, per_file=10_000)]
    return [
        _case(COMPARED, 1_000, max_rounds=1),
        _case(_ALL_COMPARED, 1_000, per_file=40_000),
        *[_case(requests, 1_000, max_rounds=1) for requests in (100_000, 1_000_000, 10_000_000)],
        *[_case(_REQUESTS, 1_000, keys=keys, max_rounds=1) for keys in (100, 10_000, 1_000_000)],
        *[_case(_REQUESTS, pending, max_rounds=1) for pending in (30_000, 1_000_000)],
    ]


def _case(
    requests: int,
    pending: int,
    keys: int = 0,
    per_file: int = 400_000,
    max_rounds: int | None = None,
) -> Case:
    params = {"requests": requests, "pending": pending, "keys": keys, "per_file": per_file}
    return Case(params, requests, max_rounds=max_rounds)


def skip_reason(side: str, case: Case) -> str | None:
    """Return a reason for the other sides in cases without a comparison."""
    if side != peers.OURS and case.max_rounds is not None and case.params["requests"] != COMPARED:
        return "compared at two sizes"
    if side == peers.STREAM_TIMERS and case.params["requests"] == COMPARED:
        return "compared at a smaller size"
    return None


def prepare_process() -> None:
    """Turn off py4j's log messages of each call."""
    logging.getLogger("py4j").setLevel(logging.WARNING)


def measure(
    side: str, requests: int, pending: int, keys: int = 0, per_file: int = 400_000
) -> dict[str, float]:
    """Measure one run over all files.

    Raises:
        RuntimeError: The written rows are not the expected ones.
    """
    data = StreamData(requests, pending, keys, per_file)
    spark = create_session("request-purgatory benchmarks", master="local[2]")
    folder = data.make(spark)
    work = Path(tempfile.mkdtemp(prefix="stream-"))
    try:
        with _restore_settings(spark):
            apply_stream_settings(spark)
            for name, value in local_checkpoint_settings(spark).items():
                spark.conf.set(name, value)
            spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
            tables = [
                _read(side, spark, folder / kind, schema)
                for kind, schema in (("requests", REQUESTS), ("events", EVENTS))
            ]
            cpu = tree_cpu_seconds()
            progress = _run(_outcomes(side, data, *tables), work)
            cpu = tree_cpu_seconds() - cpu
            if not keys:
                _check(spark, data, work / "out")
        return _figures(progress) | {
            "cpu_seconds_per_million": cpu / (2 * requests) * 1e6,
            "checkpoint_bytes": _size(work / "checkpoint"),
            "worker_bytes": _largest_worker_bytes(),
        }
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _restore_settings(spark: SparkSession) -> Iterator[None]:
    """Restore a session's settings after the block."""
    before: dict[str, str] = spark.conf.getAll
    try:
        yield
    finally:
        after: dict[str, str] = spark.conf.getAll
        for name in after.keys() - before.keys():
            spark.conf.unset(name)
        for name, value in before.items():
            if after.get(name) != value:
                spark.conf.set(name, value)


def _read(side: str, spark: SparkSession, folder: Path, schema: T.StructType) -> DataFrame:
    """Return a file a batch; our side reads as `purgatory stream` does."""
    if side == peers.OURS:
        return FolderSource(folder, files_per_batch=1).read(spark, schema)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def _outcomes(side: str, data: StreamData, requests: DataFrame, events: DataFrame) -> DataFrame:
    if side == peers.STREAM_JOIN:
        return _joined(data, requests, events)
    if side == peers.STREAM_TIMERS:
        return _timed(requests, events)
    settings = StreamSettings(shards=_SHARDS, watermark_delay_ms=_DELAY_MS)
    streamed = delayed_operations(requests, events, settings=settings, even_shards=True)
    return streamed.select("host", "request_id", "arrived_at", "ended_at", "outcome")


def _joined(data: StreamData, requests: DataFrame, events: DataFrame) -> DataFrame:
    delay = f"{_DELAY_MS} milliseconds"
    left = (
        requests.withColumn("key", F.col("watch_keys")[0])
        .withWatermark("arrived_at", delay)
        .alias("r")
    )
    right = events.withWatermark("occurred_at", delay).alias("e")
    timeout = F.expr(f"interval {data.timeout_ms} milliseconds")
    deadline = F.col("arrived_at") + timeout
    within = (F.col("occurred_at") >= F.col("arrived_at")) & (F.col("occurred_at") <= deadline)
    same = (F.col("r.host") == F.col("e.host")) & (F.col("r.key") == F.col("e.key"))
    return left.join(right, same & within, "leftOuter").select(
        "r.host",
        "request_id",
        "arrived_at",
        F.coalesce("occurred_at", deadline).alias("ended_at"),
        F.when(F.col("occurred_at").isNull(), EXPIRED).otherwise(COMPLETED).alias("outcome"),
    )


class TimerPerRequest(StatefulProcessor):
    """Completes each key's request at its first event, or expires it with a timer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Create the state, when Spark starts the processor."""
        self._handle = handle
        self._waiting = handle.getValueState(
            "waiting", "request_id string, arrived_us long, deadline_us long"
        )

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Yield the outcome of a key's request, if an event completes it."""
        waiting = self._waiting.get()
        was_kept = waiting is not None
        ended = None
        for row in sorted(rows, key=lambda row: (row.us, row.request_id is None)):
            if row.request_id is not None:
                waiting = (row.request_id, row.us, row.us + row.timeout_ms * 1000)
            elif waiting is not None and row.us <= waiting[2] and ended is None:
                ended = Row(
                    host=key[0],
                    request_id=waiting[0],
                    arrived_us=waiting[1],
                    ended_us=row.us,
                    outcome=COMPLETED,
                )
        if waiting is None:
            return
        # Timers have a resolution of milliseconds.
        timer_ms = -(-waiting[2] // 1000)
        if ended is not None:
            if was_kept:
                self._handle.deleteTimer(timer_ms)
                self._waiting.clear()
            yield ended
        elif not was_kept:
            self._waiting.update(waiting)
            self._handle.registerTimer(timer_ms)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        """Yield the outcome of a key's request that expires."""
        request_id, arrived_us, deadline_us = self._waiting.get() or ("", 0, 0)
        self._waiting.clear()
        yield Row(
            host=key[0],
            request_id=request_id,
            arrived_us=arrived_us,
            ended_us=deadline_us,
            outcome=EXPIRED,
        )

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _timed(requests: DataFrame, events: DataFrame) -> DataFrame:
    delay = f"{_DELAY_MS} milliseconds"
    left = requests.select(
        "host",
        F.col("watch_keys")[0].alias("key"),
        F.col("arrived_at").alias("at"),
        "request_id",
        "timeout_ms",
    ).withWatermark("at", delay)
    right = events.select("host", "key", F.col("occurred_at").alias("at")).withWatermark(
        "at", delay
    )
    rows = left.unionByName(right, allowMissingColumns=True).withColumn("us", F.unix_micros("at"))
    schema = "host string, request_id string, arrived_us long, ended_us long, outcome string"
    ended = rows.groupBy("host", "key").transformWithState(
        TimerPerRequest(), schema, "append", "eventtime"
    )
    times = {
        name: F.timestamp_micros(f"{name}_us").alias(f"{name}_at") for name in ("arrived", "ended")
    }
    return ended.select("host", "request_id", times["arrived"], times["ended"], "outcome")


def _run(outcomes: DataFrame, work: Path) -> list[Any]:
    writer = outcomes.writeStream.format("parquet").option("path", str(work / "out"))
    # Those of `purgatory stream`, for all sides.
    writer = writer.options(**OUTCOME_OPTIONS)
    query = (
        writer.option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return list(query.recentProgress)


def _figures(progress: list[Any]) -> dict[str, float]:
    batches = [(_rows(batch), batch.durationMs["triggerExecution"] / 1000) for batch in progress]
    full = [(rows, seconds) for rows, seconds in batches if rows]
    warm = full[_WARM_UP_BATCHES:] or full
    return {
        "warm_rows_per_second": sum(rows for rows, _ in warm) / sum(seconds for _, seconds in warm),
        "rows_per_second": sum(rows for rows, _ in full) / sum(seconds for _, seconds in batches),
        "batch_seconds": statistics.median(seconds for _, seconds in warm),
        "state_bytes": float(max(batch.stateOperators[0].memoryUsedBytes for batch in progress)),
    }


def _rows(batch: Any) -> int:
    """Return the input rows of a batch. Of our side, Spark knows the number of files."""
    observed = batch.observedMetrics.get(OBSERVED)
    return int(batch.numInputRows if observed is None else observed.asDict()["rows"] or 0)


def _check(spark: SparkSession, data: StreamData, out: Path) -> None:
    """Check that every written row is right and unique, and that nearly all rows are written.

    Rows that the last watermark has not reached are not written.

    Raises:
        RuntimeError: A check failed.
    """
    # A margin of ten seconds; less for a small data set.
    margin = min(10_000, data.requests // 4)
    requests, events = data.tables(spark)
    deadline = F.col("arrived_at") + F.expr(f"interval {data.timeout_ms} milliseconds")
    expected = requests.join(
        events.select(F.col("key").alias("k"), "occurred_at"), F.col("watch_keys")[0] == F.col("k")
    ).select(
        "request_id",
        F.when(F.col("occurred_at") <= deadline, COMPLETED).otherwise(EXPIRED).alias("expected"),
    )
    written = spark.read.parquet(str(out))
    joined = expected.join(written.select("request_id", "outcome"), "request_id", "right")
    found = joined.agg(
        F.count("*").alias("rows"),
        F.countDistinct("request_id").alias("requests"),
        F.count_if(F.col("expected") == F.col("outcome")).alias("right"),
    ).collect()[0]
    least = data.requests - 3 * data.pending - 2 * _DELAY_MS - margin
    if not (found.rows == found.requests == found.right) or found.rows < least:
        raise RuntimeError(
            f"expected at least {least:,} right outcomes of {data.requests:,} requests, got {found}"
        )


def _size(folder: Path) -> float:
    return float(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))


def _largest_worker_bytes() -> float:
    """Return the largest peak memory of Spark's Python workers; 0 if it is unknown."""
    peaks = [0.0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if b"pyspark.daemon" in (status.parent / "cmdline").read_bytes():
                lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
                peaks.append(float(lines["VmHWM"].split()[0]) * 1024)
        except (OSError, KeyError):
            continue
    return max(peaks)
