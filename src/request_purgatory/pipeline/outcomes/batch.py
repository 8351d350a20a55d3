"""Batch outcomes: how each request of a trace ends, computed with vectors, not a purgatory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.pipeline.outcomes.condition import NEVER, satisfied_us
from request_purgatory.pipeline.spark.worker_gc import freeze_imported_objects
from request_purgatory.pipeline.traces.schema import (
    AGGREGATES,
    COMPLETED,
    EVENTS,
    EXPIRED,
    OUTCOMES,
    QUANTIFIERS,
    REQUESTS,
    require,
)

#: The columns of `OUTCOMES`, and the time at which the request's condition is first satisfied, also
#: after its deadline; null if it never is.
SATISFACTIONS = T.StructType([*OUTCOMES.fields, T.StructField("satisfied_at", T.TimestampType())])

# Transfers between Spark and Python cost time per column. So timeout, quantifier and aggregate are
# packed into one number, the rule: bits 0 to 2 are the aggregate's position in `AGGREGATES` plus
# one (0 for an unknown one), bit 3 is set for the quantifier "all", and bits from 5 are the timeout
# in ms.
_TIMEOUT_SHIFT = 5
_QUANTIFIER_ALL = 8

_SATISFIED = T.StructType([
    *REQUESTS.fields[:4],
    T.StructField("rule", T.LongType()),
    T.StructField("satisfied_at", T.TimestampType()),
])


def satisfactions(
    requests: DataFrame, events: DataFrame, *, parts: Mapping[str, int] | None = None
) -> DataFrame:
    """Compute how each request ends, and when its condition is first satisfied.

    `satisfied_at` does not depend on the timeout, so it gives the outcomes under any other timeout.

    Each task takes one host, or one part of a host. Its requests and events have to fit into a
    Python worker's memory (`host_sizes.parts_of_hosts`). Hosts, and the keys of a host, are
    identified by 64-bit hashes. Among a million of them, the probability of a collision is 3e-8.

    Args:
        requests: Rows of `schema.REQUESTS`.
        events: Rows of `schema.EVENTS`.
        parts: Number of parts of each host that is split by watch key. The requests of these hosts
            have one watch key each, at most.

    Returns:
        A table of the schema `SATISFACTIONS`.

    Raises:
        SchemaError: A column is missing or of another type.
    """
    requests = require(requests, REQUESTS, "requests")
    events = require(events, EVENTS, "events")
    # Groups are numbers, as Spark sorts numbers many times faster than names.
    grouped_requests = requests.withColumn(
        "group", _group(F.get("watch_keys", F.lit(0)), parts)
    ).select(
        "group",
        *_SATISFIED.names[:4],
        F.transform("watch_keys", lambda key: F.xxhash64("group", key)).alias("watch_keys"),
        "threshold",
        _rule().alias("rule"),
    )
    grouped_events = events.withColumn("group", _group(F.col("key"), parts)).select(
        "group", F.xxhash64("group", "key").alias("key"), "occurred_at", "amount"
    )
    satisfied = (
        grouped_requests
        .groupBy("group")
        .cogroup(grouped_events.groupBy("group"))
        .applyInArrow(_satisfy, _SATISFIED)
    )

    arrived_us, satisfied_us = F.unix_micros("arrived_at"), F.unix_micros("satisfied_at")
    deadline_us = arrived_us + F.shiftright("rule", _TIMEOUT_SHIFT) * 1000
    completed = F.coalesce(satisfied_us <= deadline_us, F.lit(False))
    ended_us = F.when(completed, satisfied_us).otherwise(deadline_us)
    return satisfied.select(
        *_SATISFIED.names[:4],
        F.timestamp_micros(ended_us).alias("ended_at"),
        F.when(completed, COMPLETED).otherwise(EXPIRED).alias("outcome"),
        ((ended_us - arrived_us) / 1000).alias("waited_ms"),
        "satisfied_at",
    )


def batch_outcomes(
    requests: DataFrame, events: DataFrame, *, parts: Mapping[str, int] | None = None
) -> DataFrame:
    """Compute how each request ends.

    Args:
        requests: Rows of `schema.REQUESTS`.
        events: Rows of `schema.EVENTS`.
        parts: As for `satisfactions`.

    Returns:
        A table of the schema `schema.OUTCOMES`.
    """
    return satisfactions(requests, events, parts=parts).select(*OUTCOMES.names)


def _group(key: Column, parts: Mapping[str, int] | None) -> Column:
    if not parts:
        return F.xxhash64("host")
    counts = F.create_map(*[F.lit(item) for pair in parts.items() for item in pair])
    count = F.coalesce(counts[F.col("host")], F.lit(1))
    return F.xxhash64("host", F.coalesce(F.pmod(F.xxhash64(key), count), F.lit(0)))


def _rule() -> Column:
    # An unknown aggregate is 0, which no event satisfies.
    aggregate = F.coalesce(F.array_position(F.lit(list(AGGREGATES)), F.col("aggregate")), F.lit(0))
    quantifier = F.when(F.col("quantifier") == QUANTIFIERS[0], _QUANTIFIER_ALL).otherwise(0)
    return F.shiftleft(F.col("timeout_ms").cast("bigint"), _TIMEOUT_SHIFT) + quantifier + aggregate


def _satisfy(requests: pa.Table, events: pa.Table) -> pa.Table:
    freeze_imported_objects()
    rule = requests.column("rule").to_numpy()
    is_all, aggregate = (rule & _QUANTIFIER_ALL) != 0, rule & (_QUANTIFIER_ALL - 1)
    unpacked = pa.table({
        **{name: requests.column(name) for name in ("arrived_at", "watch_keys", "threshold")},
        "aggregate": pa.array(["", *AGGREGATES]).take(pa.array(aggregate)),
        "quantifier": pa.array(QUANTIFIERS[::-1]).take(pa.array(is_all.astype(np.int8))),
    })
    satisfied = satisfied_us(unpacked, events)
    return requests.select(_SATISFIED.names[:5]).append_column(
        "satisfied_at", pa.array(satisfied, pa.timestamp("us", tz="UTC"), mask=satisfied == NEVER)
    )
