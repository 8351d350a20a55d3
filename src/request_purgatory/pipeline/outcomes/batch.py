"""Batch outcomes.

How every request of a trace ends, computed with vectors instead of a purgatory.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.pipeline.outcomes.condition import NEVER, satisfied_us
from request_purgatory.pipeline.spark.worker_gc import settle_worker
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

#: The outcomes, and when each request's condition holds if nothing ends the wait (null if it never
#: does).
SATISFACTIONS = T.StructType([*OUTCOMES.fields, T.StructField("satisfied_at", T.TimestampType())])

# What a value costs on its way between Spark and Python is by the column, whatever is in it: what
# says how a request is judged goes as one number, the timeout above these bits and the aggregate's
# position and the quantifier in them.
_RULE_BITS = 5
_EVERY = 8

_JUDGED = T.StructType(
    [
        *REQUESTS.fields[:4],
        T.StructField("rule", T.LongType()),
        T.StructField("satisfied_at", T.TimestampType()),
    ]
)


def satisfactions(
    requests: DataFrame, events: DataFrame, *, parts: Mapping[str, int] | None = None
) -> DataFrame:
    """The outcomes of `requests` (`schema.REQUESTS`) given `events` (`schema.EVENTS`), with `satisfied_at` beside them.

    `satisfied_at` does not depend on the timeout: it is what the outcomes under any other timeout
    follow from. Hosts are done side by side; each host's requests and events have to fit in a
    Python worker's memory (`host_sizes.parts_of_hosts`). Hosts are told apart by 64-bit hashes, and
    so are the keys of one: among a million, the chance that any two are taken for one is 3e-8.

    Args:
        parts: hosts that are cut by watch key, and in how many parts; their requests have one watch
            key each, at most.

    Raises:
        SchemaError: a column is missing or of another type.
    """
    requests = require(requests, REQUESTS, "requests")
    events = require(events, EVENTS, "events")
    # By a number, as Spark sorts numbers many times faster than names.
    judged = requests.withColumn("group", _group(F.get("watch_keys", F.lit(0)), parts)).select(
        "group",
        *_JUDGED.names[:4],
        F.transform("watch_keys", lambda key: F.xxhash64("group", key)).alias("watch_keys"),
        "threshold",
        _rule().alias("rule"),
    )
    happened = events.withColumn("group", _group(F.col("key"), parts)).select(
        "group", F.xxhash64("group", "key").alias("key"), "occurred_at", "amount"
    )
    satisfied = (
        judged.groupBy("group").cogroup(happened.groupBy("group")).applyInArrow(_satisfy, _JUDGED)
    )

    arrived_us, satisfied_us = F.unix_micros("arrived_at"), F.unix_micros("satisfied_at")
    deadline_us = arrived_us + F.shiftright("rule", _RULE_BITS) * 1000
    completed = F.coalesce(satisfied_us <= deadline_us, F.lit(False))
    ended_us = F.when(completed, satisfied_us).otherwise(deadline_us)
    return satisfied.select(
        *_JUDGED.names[:4],
        F.timestamp_micros(ended_us).alias("ended_at"),
        F.when(completed, COMPLETED).otherwise(EXPIRED).alias("outcome"),
        ((ended_us - arrived_us) / 1000).alias("waited_ms"),
        "satisfied_at",
    )


def batch_outcomes(
    requests: DataFrame, events: DataFrame, *, parts: Mapping[str, int] | None = None
) -> DataFrame:
    """The outcomes alone (`schema.OUTCOMES`); otherwise as `satisfactions`."""
    return satisfactions(requests, events, parts=parts).select(*OUTCOMES.names)


def _group(key: Column, parts: Mapping[str, int] | None) -> Column:
    if not parts:
        return F.xxhash64("host")
    counts = F.create_map(*[F.lit(of) for host, count in parts.items() for of in (host, count)])
    count = F.coalesce(counts[F.col("host")], F.lit(1))
    return F.xxhash64("host", F.coalesce(F.pmod(F.xxhash64(key), count), F.lit(0)))


def _rule() -> Column:
    # What is none of them is never satisfied by an event.
    aggregate = F.coalesce(F.array_position(F.lit(list(AGGREGATES)), F.col("aggregate")), F.lit(0))
    every = F.when(F.col("quantifier") == QUANTIFIERS[0], _EVERY).otherwise(0)
    return F.shiftleft(F.col("timeout_ms").cast("bigint"), _RULE_BITS) + every + aggregate


def _satisfy(requests: pa.Table, events: pa.Table) -> pa.Table:
    settle_worker()
    rule = requests.column("rule").to_numpy()
    every, aggregate = (rule & _EVERY) != 0, rule & (_EVERY - 1)
    judged = pa.table(
        {
            **{name: requests.column(name) for name in ("arrived_at", "watch_keys", "threshold")},
            "aggregate": pa.array(["", *AGGREGATES]).take(pa.array(aggregate)),
            "quantifier": pa.array(QUANTIFIERS[::-1]).take(pa.array(every.astype(np.int8))),
        }
    )
    satisfied = satisfied_us(judged, events)
    told = requests.select(_JUDGED.names[:5])
    return told.append_column(
        "satisfied_at", pa.array(satisfied, pa.timestamp("us", tz="UTC"), mask=satisfied == NEVER)
    )
