"""Comparison of replays with the batch outcomes: by fingerprints first, and then row by row."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis.aggregates import compare_replayed
from purgatory_spark._analysis.replay_folder import ReplayFolder
from purgatory_spark._analysis.wait_buckets import bucket_of, quantile, ranked
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._rows.schema import OUTCOMES, require

#: Rows are compared in this many groups, by a hash of host, id and arrival.
_GROUPS = 1024

_AGREEMENT = pa.schema(
    {"design": pa.string(), "rows": pa.int64(), "differing": pa.int64(), "example": pa.string()}
)
_LATENESS = {"p50_ms": 0.5, "p99_ms": 0.99}

#: The number of rows, and two hashes of all of them, by group.
_Fingerprints = dict[int, tuple[int, int, int]]


def compare_replays(
    spark: SparkSession, outcomes: DataFrame, replays: list[ReplayFolder]
) -> pa.Table:
    """Compare replays' outcomes with the batch outcomes, request by request.

    Each table is read once, and a row becomes 128 bits of hashes. They are combined by group, so
    nothing is shuffled or sorted but the groups. Only rows of groups that differ are joined. Equal
    hashes of different groups have a probability of 3e-39 each.

    Returns a row for each replay: the columns of `aggregates.compare_replayed`.
    """
    names = [replay.name for replay in replays]
    batch = outcomes_of(outcomes).select(*OUTCOMES.names)
    replayed = [
        require(replay.table(spark, "outcomes"), OUTCOMES, f"{replay.path}/outcomes").select(
            *OUTCOMES.names
        )
        for replay in replays
    ]
    expected, *replay_fingerprints = _fingerprints([batch, *replayed])
    rows = []
    for name, table, fingerprints in zip(names, replayed, replay_fingerprints, strict=True):
        differing = [
            group
            for group in sorted(expected.keys() | fingerprints.keys())
            if expected.get(group) != fingerprints.get(group)
        ]
        equal = sum(count for group, (count, *_) in expected.items() if group not in differing)
        compared = {"design": name, "rows": equal, "differing": 0, "example": None}
        if differing:
            is_suspect = _group().isin(differing)
            row = compare_replayed(batch.where(is_suspect), table.where(is_suspect), name).first()
            assert row is not None
            compared |= row.asDict() | {"rows": equal + row["rows"]}
        rows.append(compared)
    return pa.Table.from_pylist(rows, _AGREEMENT)


def _group() -> Column:
    return F.pmod(F.xxhash64("host", "request_id", "arrived_at"), F.lit(_GROUPS))


def _fingerprints(tables: list[DataFrame]) -> list[_Fingerprints]:
    """Return the fingerprints of several tables of outcomes, computed in one job."""
    names = OUTCOMES.names
    hashed = [
        table.select(
            F.lit(number).alias("number"),
            _group().alias("group"),
            F.xxhash64(*names).alias("one"),
            F.xxhash64(F.lit("other"), *names).alias("other"),
        )
        for number, table in enumerate(tables)
    ]
    rows = reduce(DataFrame.unionByName, hashed)
    combined = rows.groupBy("number", "group").agg(
        F.count("*").alias("rows"), F.bit_xor("one").alias("one"), F.bit_xor("other").alias("other")
    )
    by_number: dict[int, _Fingerprints] = defaultdict(dict)
    for row in combined.collect():
        by_number[row["number"]][row["group"]] = (row["rows"], row["one"], row["other"])
    return [by_number[number] for number in range(len(tables))]


def summarize_lateness(spark: SparkSession, replays: list[ReplayFolder]) -> DataFrame:
    """Summarize how long after their deadlines the replays' requests expired.

    Returns a row for each replay: `design` (its name), `expired`, and of the lateness on the
    replay's virtual clock `mean_ms`, `p50_ms`, `p99_ms` (at most 0.24 % too long), `max_ms`. They
    are null if no request expired.
    """
    late = [
        replay.table(spark, "outcomes").select(F.lit(replay.name).alias("design"), "late_ms")
        for replay in replays
    ]
    rows = reduce(DataFrame.unionByName, late)
    # Lateness is in whole microseconds, and is counted like waits. It is null for completed ones.
    counts = rows.groupBy(
        "design", bucket_of(F.round(F.col("late_ms") * 1000).cast("bigint")).alias("bucket")
    ).agg(
        F.count("late_ms").alias("number"),
        F.coalesce(F.sum("late_ms"), F.lit(0.0)).alias("late_ms"),
        F.max("late_ms").alias("largest"),
    )
    return (
        ranked(counts, ["design"], ["bucket"], ["late_ms"])
        .groupBy("design")
        .agg(
            F.sum("number").alias("expired"),
            F.try_divide(F.sum("late_ms"), F.sum("number")).alias("mean_ms"),
            *[quantile(share).alias(name) for name, share in _LATENESS.items()],
            F.max("largest").alias("max_ms"),
        )
    )
