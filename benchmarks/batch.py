"""Outcomes of a whole trace: rows per second from Parquet files to counted rows.

Each request waits for one event of each of its keys, so other tools can compute the outcomes, too;
our side supports the whole schema. Spark's own side is one window over requests and events
together, by key and in order of time: a request gets the time of the next event. DuckDB's is an
ASOF join, and Polars' is `join_asof`, both without Spark. With several keys a request, all three
take the keys apart and group by request. All sides have two cores. Rows are requests and events.
"Cold" is the first pass of a process, after the session has started; the other figure is that of
the fastest further pass. CPU time is of this process, the JVM and its Python workers, in that pass.

Ours has three ways in. From a trace folder, Python workers read the files, as they do of DataFrames
that are plain Parquet files; they get the rows of other DataFrames; and an own table is mapped and
checked first, as `Trace.from_table` does it. The own table has a row for each call, with or without
the calls' ids. Its rows are calls.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from benchmarks import peers
from benchmarks.question import Case
from benchmarks.stopwatch import tree_cpu_seconds
from benchmarks.stream_data import StreamData
from purgatory_spark import TableFields, Trace
from purgatory_spark._outcomes.batch import batch_outcomes, trace_outcomes
from purgatory_spark._rows.schema import COMPLETED, EVENTS, EXPIRED, REQUESTS
from purgatory_spark._spark.session import create_session

QUESTION = "batch"
METRICS = {
    "rows_per_second": "1/s",
    "cold_rows_per_second": "1/s",
    "cpu_seconds_per_million": "s",
}
SIDES = (
    peers.OURS,
    peers.OURS_TABLES,
    peers.OURS_CALLS,
    peers.SPARK_SQL,
    peers.DUCKDB,
    peers.POLARS,
)

_PENDING = 1_000
_CORES = 2

#: The number of requests, that of the expired ones, and the sum of all waits in microseconds.
Answer = tuple[int, int, int]


def cases(quick: bool) -> list[Case]:
    """Return cases with one key for each request, shared keys, several keys, and without ids."""
    rows = 200_000 if quick else 20_000_000
    keyed = [
        Case({"requests": requests, "keys": keys, "watched": watched}, requests, max_rounds=3)
        for requests, keys, watched in (
            (rows // 2, 0, 1),
            (rows // 2, 10_000, 1),
            (rows // 8, 0, 3),
        )
    ]
    calls = rows // 8
    return [
        *keyed,
        *[Case({"requests": calls, "keys": 0, "ids": ids}, calls, max_rounds=3) for ids in (1, 0)],
    ]


def skip_reason(side: str, case: Case) -> str | None:
    """Return a reason for an own table without cases for it, and for other sides without ids."""
    if "ids" in case.params:
        is_ours = side in (peers.OURS, peers.OURS_TABLES, peers.OURS_CALLS)
        if not is_ours:
            return "compares the three ways in"
        return "requests have ids" if not case.params["ids"] and side != peers.OURS_CALLS else None
    return "compared at a smaller size" if side == peers.OURS_CALLS else None


def measure(
    side: str, requests: int, keys: int, watched: int = 1, ids: int = 1, passes: int = 3
) -> dict[str, float]:
    """Measure the outcomes of a trace.

    Args:
        side: One of `SIDES`.
        requests: The number of requests in the trace.
        keys: The number of shared keys; 0 for keys of each request's own.
        watched: The number of keys of each request.
        ids: Whether the own table has a column of ids; others have one.
        passes: The number of passes in this process, at least 2.

    Returns:
        A value for each of `METRICS`.

    Raises:
        RuntimeError: The answer is not that of the side that was measured first.
    """
    data = StreamData(requests, _PENDING, keys, watched=watched)
    if side in peers.ON_TABLES and data.folder.exists():
        answer = _without_spark(side, data)
    else:
        spark = create_session("request-purgatory benchmarks", master=f"local[{_CORES}]")
        data.make(spark)
        if side in peers.ON_TABLES:
            answer = _without_spark(side, data)
        elif side == peers.OURS_CALLS:
            answer = partial(_imported, spark.read.parquet(str(data.make_calls(spark))), data, ids)
        else:
            answer = partial(_on_spark, spark, side, data)
    used: list[tuple[float, float]] = []
    rows = requests if side == peers.OURS_CALLS else requests * (1 + watched)
    for _ in range(passes):
        begun, cpu = perf_counter(), tree_cpu_seconds()
        found = answer()
        used.append((perf_counter() - begun, tree_cpu_seconds() - cpu))
        _require_equal(data.folder, found)
    seconds, cpu_seconds = min(used[1:])
    return {
        "rows_per_second": rows / seconds,
        "cold_rows_per_second": rows / used[0][0],
        "cpu_seconds_per_million": cpu_seconds / rows * 1e6,
    }


def _require_equal(folder: Path, found: Answer) -> None:
    """Check an answer against that of an earlier side on the same files, which is beside them."""
    file = folder / "answer.json"
    if not file.exists():
        file.write_text(json.dumps(found))
    expected = tuple(json.loads(file.read_text()))
    if found != expected:
        raise RuntimeError(f"wrong outcomes in {folder}: {found}, other sides: {expected}")


def _on_spark(spark: SparkSession, side: str, data: StreamData) -> Answer:
    if side == peers.OURS:
        outcomes = trace_outcomes(spark, data.folder)
    else:
        requests, events = (
            spark.read.schema(schema).parquet(str(data.folder / kind))
            for kind, schema in (("requests", REQUESTS), ("events", EVENTS))
        )
        if side == peers.SPARK_SQL:
            outcomes = _windowed(requests, events, data.watched)
        else:
            # A filter makes them DataFrames whose rows only Spark has.
            has_host = F.col("host") != ""
            outcomes = batch_outcomes(requests.where(has_host), events.where(has_host))
    return _answer(outcomes)


def _imported(calls: DataFrame, data: StreamData, ids: int) -> Answer:
    fields: TableFields = {
        "host": "server",
        "arrived_at": "started",
        "service_ms": "took_ms",
        "timeout_ms": data.timeout_ms,
    }
    if ids:
        fields["request_id"] = "call"
    trace = Trace.from_table(calls, **fields)
    return _answer(trace.outcomes())


def _answer(outcomes: DataFrame) -> Answer:
    found = outcomes.agg(
        F.count("*"),
        F.count_if(F.col("outcome") == EXPIRED),
        F.sum(F.unix_micros("ended_at") - F.unix_micros("arrived_at")),
    ).collect()[0]
    return found[0], found[1], found[2]


def _without_spark(side: str, data: StreamData) -> Callable[[], Answer]:
    return partial(_asof_in_duckdb if side == peers.DUCKDB else _asof_in_polars, data)


def _asof_in_duckdb(data: StreamData) -> Answer:
    import duckdb  # Optional.

    folder = data.folder
    source, key, found, grouped = f"read_parquet('{folder}/requests/*.parquet')", "", "", ""
    if data.watched == 1:
        key, found = "r.watch_keys[1]", "e.occurred_at"
    else:
        source = f"(SELECT *, unnest(watch_keys) AS key FROM {source})"
        # The maximum leaves nulls out, and one key without an event is enough to expire.
        key, found = "r.key", "CASE WHEN bool_and(e.key IS NOT NULL) THEN max(e.occurred_at) END"
        grouped = "GROUP BY r.host, r.request_id, r.arrived_at, r.timeout_ms"
    query = f"""
        WITH ended AS (
            SELECT epoch_us(r.arrived_at) AS arrived, epoch_us({found}) AS occurred,
                   epoch_us(r.arrived_at) + r.timeout_ms * 1000 AS deadline
            FROM {source} r
            ASOF LEFT JOIN read_parquet('{folder}/events/*.parquet') e
            ON r.host = e.host AND {key} = e.key AND r.arrived_at <= e.occurred_at
            {grouped}
        )
        SELECT count(*), count(*) FILTER (WHERE NOT coalesce(occurred <= deadline, false)),
               sum(least(coalesce(occurred, deadline), deadline) - arrived)::BIGINT
        FROM ended
    """
    with duckdb.connect(config={"threads": _CORES}) as database:
        requests, expired, waited_us = database.execute(query).fetchall()[0]
    return int(requests), int(expired), int(waited_us)


def _asof_in_polars(data: StreamData) -> Answer:
    os.environ["POLARS_MAX_THREADS"] = str(_CORES)
    import polars as pl  # Optional, and reads the variable when it is imported.

    requests = (
        pl.scan_parquet(data.folder / "requests" / "*.parquet")
        .select("host", "request_id", "arrived_at", "timeout_ms", key=pl.col("watch_keys"))
        .sort("arrived_at")
    )
    requests = (
        requests.with_columns(pl.col("key").list.first())
        if data.watched == 1
        else requests.explode("key")
    )
    events = (
        pl.scan_parquet(data.folder / "events" / "*.parquet")
        .select("host", "key", "occurred_at")
        .sort("occurred_at")
    )
    joined = requests.join_asof(
        events,
        left_on="arrived_at",
        right_on="occurred_at",
        by=["host", "key"],
        strategy="forward",
        check_sortedness=False,
    )
    if data.watched > 1:
        joined = joined.group_by("host", "request_id", "arrived_at", "timeout_ms").agg(
            # The maximum leaves nulls out, and one key without an event is enough to expire.
            pl.when(pl.col("occurred_at").null_count() == 0).then(pl.col("occurred_at").max())
        )
    arrived, occurred = (pl.col(f"{name}_at").dt.epoch("us") for name in ("arrived", "occurred"))
    deadline = arrived + pl.col("timeout_ms").cast(pl.Int64) * 1000
    answer = joined.select(
        requests=pl.len(),
        expired=(~(occurred <= deadline).fill_null(value=False)).sum(),
        waited_us=(pl.min_horizontal(occurred, deadline) - arrived).sum(),
    ).collect()
    row = answer.row(0)
    return int(row[0]), int(row[1]), int(row[2])


def _windowed(requests: DataFrame, events: DataFrame, watched: int) -> DataFrame:
    key = F.col("watch_keys")[0] if watched == 1 else F.explode("watch_keys")
    arrivals = requests.withColumn("key", key).withColumn("at", F.col("arrived_at"))
    occurrences = events.select(
        "host", "key", F.col("occurred_at").alias("at"), F.col("occurred_at")
    )
    rows = arrivals.unionByName(occurrences, allowMissingColumns=True)
    ahead = (
        Window.partitionBy("host", "key")
        .orderBy(F.desc("at"))
        # A frame that grows takes one step a row, one that shrinks goes over all its rows again.
        .rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    found = rows.withColumn("satisfied_at", F.min("occurred_at").over(ahead)).where(
        F.col("request_id").isNotNull()
    )
    if watched > 1:
        last = F.max("satisfied_at")
        found = found.groupBy("host", "request_id", "request_type", "arrived_at", "timeout_ms").agg(
            # The maximum leaves nulls out, and one key without an event is enough to expire.
            F.when(F.count("satisfied_at") == watched, last).alias("satisfied_at")
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
