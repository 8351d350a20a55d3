"""Outcomes of a whole trace on Spark: rows per second from Parquet files to counted rows.

Spark's own side is one window over requests and events together, by key and in order of time: a
request gets the time of the next event. This is possible because each request here waits for one
event; our side supports the whole schema. Rows are requests and events.
"""

from __future__ import annotations

from time import perf_counter

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from benchmarks import peers
from benchmarks.question import Case
from benchmarks.stream_data import StreamData
from request_purgatory.pipeline.outcomes.batch import batch_outcomes
from request_purgatory.pipeline.spark.session import create_session
from request_purgatory.pipeline.traces.schema import COMPLETED, EVENTS, EXPIRED, REQUESTS

QUESTION = "batch"
METRICS = {"rows_per_second": "1/s"}
SIDES = (peers.OURS, peers.SPARK_SQL)

_PENDING = 1_000


def cases(quick: bool) -> list[Case]:
    """Return a case with one key for each request and one with shared keys."""
    requests = 100_000 if quick else 10_000_000
    return [
        Case({"requests": requests, "keys": keys}, requests, max_rounds=1) for keys in (0, 10_000)
    ]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: every side runs every case."""
    return None


def measure(side: str, requests: int, keys: int, passes: int = 3) -> dict[str, float]:
    """Measure the outcomes of a trace.

    Args:
        side: One of `SIDES`.
        requests: The number of requests in the trace, and of events.
        keys: The number of shared keys; 0 for one key for each request.
        passes: The number of passes in this process; the fastest counts.

    Returns:
        rows_per_second.

    Raises:
        RuntimeError: The number of outcomes is wrong.
    """
    spark = create_session("request-purgatory benchmarks", master="local[2]")
    data = StreamData(requests, _PENDING, keys)
    folder = data.make(spark)
    tables = [
        spark.read.schema(schema).parquet(str(folder / kind))
        for kind, schema in (("requests", REQUESTS), ("events", EVENTS))
    ]
    seconds = []
    for _ in range(passes):
        outcomes = batch_outcomes(*tables) if side == peers.OURS else _windowed(*tables)
        begun = perf_counter()
        found = outcomes.agg(
            F.count("*"), F.count_if(F.col("outcome") == EXPIRED), F.sum("waited_ms")
        ).collect()[0]
        seconds.append(perf_counter() - begun)
        if found[0] != requests or not (keys or 0.08 < found[1] / requests < 0.12):
            raise RuntimeError(f"wrong outcomes of {requests:,} requests: {found}")
    return {"rows_per_second": 2 * requests / min(seconds)}


def _windowed(requests: DataFrame, events: DataFrame) -> DataFrame:
    arrivals = requests.withColumn("key", F.col("watch_keys")[0]).withColumn(
        "at", F.col("arrived_at")
    )
    occurrences = events.select(
        "host", "key", F.col("occurred_at").alias("at"), F.col("occurred_at")
    )
    rows = arrivals.unionByName(occurrences, allowMissingColumns=True)
    ahead = (
        Window
        .partitionBy("host", "key")
        .orderBy("at")
        .rangeBetween(Window.currentRow, Window.unboundedFollowing)
    )
    found = rows.withColumn("satisfied_at", F.min("occurred_at").over(ahead)).where(
        F.col("request_id").isNotNull()
    )
    deadline_us = F.unix_micros("arrived_at") + F.col("timeout_ms") * 1000
    completed = F.coalesce(F.unix_micros("satisfied_at") <= deadline_us, F.lit(False))
    ended_us = F.when(completed, F.unix_micros("satisfied_at")).otherwise(deadline_us)
    return found.select(
        "host",
        "request_id",
        "request_type",
        "arrived_at",
        F.timestamp_micros(ended_us).alias("ended_at"),
        F.when(completed, COMPLETED).otherwise(EXPIRED).alias("outcome"),
        ((ended_us - F.unix_micros("arrived_at")) / 1000).alias("waited_ms"),
    )
