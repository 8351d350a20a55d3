"""Batch outcomes: how each request of a trace ends, computed with vectors, not a purgatory."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from functools import partial, reduce
from itertools import groupby
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from purgatory_spark._outcomes.reject_rows import REJECT_KIND
from purgatory_spark._outcomes.results import OUTCOME_KIND, REJECT_FIELDS, RESULTS
from purgatory_spark._outcomes.satisfied import (
    LEAST_SHARDS,
    SATISFIED_NAMES,
    reject_repeated_parts,
    satisfy_part,
    satisfy_shard,
)
from purgatory_spark._outcomes.shards import Sharding, pack_batches
from purgatory_spark._rows.packing import ENCODED, PACKED_SCHEMA
from purgatory_spark._rows.schema import (
    ARROW_SCHEMAS,
    COMPLETED,
    EVENTS,
    EXPIRED,
    IDENTITY,
    OUTCOMES,
    REQUESTS,
    require,
)
from purgatory_spark._spark.parquet_splits import (
    Split,
    TableFiles,
    list_files,
    map_tasks,
    plan_tasks,
    read_split,
)
from purgatory_spark._spark.scanned_files import scanned_files
from purgatory_spark._spark.schemas import fields_of, to_micros, utc_schema
from purgatory_spark._spark.session import parallelism, small_partitions
from purgatory_spark._spark.spark_tables import read_spark_table
from purgatory_spark._spark.workers import require_local_python

_REQUESTS = "requests"
_EVENTS = "events"
_SCHEMAS = {_REQUESTS: REQUESTS, _EVENTS: EVENTS}
PACKED = from_arrow_schema(PACKED_SCHEMA)
#: Of files this small, a shard has these many bytes, because each shard has costs of its own.
_SHARD_BYTES = 2**20

#: With so many of few shards, tasks have about as many rows.
_SHARDS_PER_TASK = 8

# In rejects all columns but `reason` and `row` are null.
_SATISFIED = T.StructType(
    [
        *[OUTCOMES[name] for name in IDENTITY],
        *fields_of(T.LongType(), *SATISFIED_NAMES[len(IDENTITY) :]),
        *REJECT_FIELDS[:2],
    ]
)
#: Where requests with an id of a host may be in several parts: besides, their `tie_numbers`.
_SATISFIED_PART = T.StructType([*_SATISFIED, *fields_of(T.LongType(), "tie")])


def satisfactions(
    requests: DataFrame,
    events: DataFrame,
    *,
    parts: Mapping[str, int] | None = None,
    are_few: bool = False,
) -> DataFrame:
    """Compute how each request ends, and when its condition is first satisfied.

    `are_few`: whether the rows are a small input, which needs few shards and tasks.

    Returns the columns of `RESULTS`, and `satisfied_at`, which may be after the deadline, and is
    null if it never is satisfied. It does not depend on the timeout, so it gives the outcomes under
    any other timeout.
    """
    tables = {
        _REQUESTS: require(requests, REQUESTS, "requests"),
        _EVENTS: require(events, EVENTS, "events"),
    }
    files = {kind: scanned_files(table, utc_schema(table.schema)) for kind, table in tables.items()}
    spark, known = requests.sparkSession, {kind: found for kind, found in files.items() if found}
    sharding = sharding_of(spark, parts, files.values(), are_few=are_few)
    packed = [
        table.select(*to_micros(table.schema)).mapInArrow(
            partial(pack_batches, kind=kind, sharding=sharding), PACKED
        )
        for kind, table in tables.items()
        if kind not in known
    ]
    if known:
        packed.append(_packed_files(spark, known, sharding))
    return _satisfactions(reduce(DataFrame.unionByName, packed), sharding)


def trace_satisfactions(
    spark: SparkSession,
    folder: str | Path,
    *,
    parts: Mapping[str, int] | None = None,
    are_few: bool = False,
) -> DataFrame:
    """Compute the `satisfactions` of a trace in files.

    The Python workers read the files by themselves, which takes half of the time. Where they can't,
    Spark reads them: if the folders' scheme is unknown to Arrow, or if Spark did not write the
    files with exactly these types.
    """
    folders = {
        kind: f"{folder}/{kind}" if "://" in str(folder) else os.path.abspath(Path(folder) / kind)
        for kind in _SCHEMAS
    }
    files = {kind: list_files(folders[kind], schema) for kind, schema in _SCHEMAS.items()}
    known = {kind: found for kind, found in files.items() if found is not None}
    if len(known) < len(files):
        requests, events = (
            spark.read.parquet(path) if "://" in path else read_spark_table(spark, Path(path))
            for path in folders.values()
        )
        return satisfactions(requests, events, parts=parts, are_few=are_few)
    sharding = sharding_of(spark, parts, known.values(), are_few=are_few)
    return _satisfactions(_packed_files(spark, known, sharding), sharding)


def _packed_files(
    spark: SparkSession, files: Mapping[str, TableFiles], sharding: Sharding
) -> DataFrame:
    """Return the rows of files that the Python workers read, packed."""

    def read_and_pack(task: list[Split]) -> Iterator[pa.RecordBatch]:
        for kind, splits in groupby(task, key=lambda split: split.table):
            rows = (
                batch
                for split in splits
                for batch in read_split(split, ARROW_SCHEMAS[kind], ENCODED[kind])
            )
            yield from pack_batches(rows, kind, sharding)

    return map_tasks(spark, plan_tasks(files, parallelism(spark)), read_and_pack, PACKED)


def batch_outcomes(
    requests: DataFrame, events: DataFrame, *, parts: Mapping[str, int] | None = None
) -> DataFrame:
    """Compute how each request ends.

    Workers take the hosts of one shard at a time, or one part of a host, whose requests and events
    have to fit into a Python worker's memory. Keys are identified by 64-bit hashes of host and key.
    Among a million of them, the probability of a collision is 3e-8. Workers read the files of
    DataFrames that are plain Parquet files by themselves, as `trace_outcomes` does.

    Args:
        requests: Rows of `schema.REQUESTS`.
        events: Rows of `schema.EVENTS`.
        parts: Number of parts of each host that is split by watch key. The requests of these hosts
            have one watch key each, at most. A host with one part has a shard of its own.

    Returns:
        A table of the schema `results.RESULTS`: a row of the kind "outcomes" for each request, and
        one of the kind "rejects", with `reason` and `row`, for each row that broke a rule.

    Raises:
        SchemaError: A column is missing or of another type.
    """
    return satisfactions(requests, events, parts=parts).select(*RESULTS.names)


def trace_outcomes(
    spark: SparkSession, folder: str | Path, *, parts: Mapping[str, int] | None = None
) -> DataFrame:
    """Compute how each request of a trace in files ends, faster than from rows of DataFrames.

    Args:
        spark: The session.
        folder: A path or URI that all machines can read. The folders `requests` and `events` in it
            have Parquet files of `schema.REQUESTS` and `schema.EVENTS`.
        parts: As for `batch_outcomes`.

    Returns:
        A table of the schema `results.RESULTS`, as of `batch_outcomes`.

    Raises:
        SchemaError: A column is missing or of another type.
    """
    return trace_satisfactions(spark, folder, parts=parts).select(*RESULTS.names)


def sharding_of(
    spark: SparkSession,
    parts: Mapping[str, int] | None,
    files: Collection[TableFiles | None],
    *,
    are_few: bool = False,
) -> Sharding:
    """Return how hosts are assigned to shards; `files` are those of each table, None if unknown."""
    require_local_python(spark)
    if are_few and not parts:
        tasks = small_partitions(spark)
        return Sharding(tasks * _SHARDS_PER_TASK, tasks=tasks)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    known, least = [table for table in files if table is not None], LEAST_SHARDS
    if len(known) == len(files):
        least = min(least, 1 + sum(table.total_bytes for table in known) // _SHARD_BYTES)
    return Sharding(max(least, partitions), parts or {})


def by_shard(packed: DataFrame, sharding: Sharding) -> GroupedData:
    if sharding.tasks is not None:
        packed = packed.repartition(sharding.tasks, "shard")
    return packed.groupBy("shard")


def _satisfactions(packed: DataFrame, sharding: Sharding) -> DataFrame:
    if max(sharding.parts.values(), default=1) == 1:
        satisfied = by_shard(packed, sharding).applyInArrow(satisfy_shard, _SATISFIED)
    else:
        # The requests of one id may be in several parts, which know nothing of each other.
        groups = F.pmod(F.xxhash64("host", "request_id", "row"), F.lit(sharding.total))
        satisfied = (
            packed.groupBy("shard")
            .applyInArrow(satisfy_part, _SATISFIED_PART)
            .groupBy(groups.alias("group"))
            .applyInArrow(reject_repeated_parts, _SATISFIED)
        )
    return results_of(satisfied)


def results_of(satisfied: DataFrame) -> DataFrame:
    """Return the columns of `satisfactions`, of rows of `SATISFIED_NAMES` and rejects."""
    is_reject = F.col("reason").isNotNull()
    completed = F.coalesce(F.col("satisfied_us") <= F.col("deadline_us"), F.lit(False))
    ended_us = F.when(completed, F.col("satisfied_us")).otherwise(F.col("deadline_us"))
    return satisfied.select(
        *IDENTITY,
        F.timestamp_micros("arrived_us").alias("arrived_at"),
        F.timestamp_micros(ended_us).alias("ended_at"),
        F.when(completed, COMPLETED).when(~is_reject, EXPIRED).alias("outcome"),
        ((ended_us - F.col("arrived_us")) / 1000).alias("waited_ms"),
        F.timestamp_micros("satisfied_us").alias("satisfied_at"),
        "reason",
        "row",
        F.when(is_reject, REJECT_KIND).otherwise(OUTCOME_KIND).alias("kind"),
    )
