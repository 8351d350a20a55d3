"""Batch outcomes: how every request of a trace ends, computed with vectors instead of a purgatory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.pipeline.condition import NEVER, Ints, epoch_us, satisfied_us
from request_purgatory.pipeline.schema import COMPLETED, EVENTS, EXPIRED, OUTCOMES, REQUESTS, require

#: The outcomes, and when each request's condition holds if nothing ends the wait (null if it never does).
SATISFACTIONS = T.StructType([*OUTCOMES.fields, T.StructField("satisfied_at", T.TimestampType())])


def satisfactions(requests: DataFrame, events: DataFrame) -> DataFrame:
    """The outcomes of `requests` (`schema.REQUESTS`) given `events` (`schema.EVENTS`), with `satisfied_at` beside them.

    `satisfied_at` does not depend on the timeout: it is what the outcomes under any other timeout follow from. Hosts are done
    side by side; each host's requests and events have to fit in a Python worker's memory.

    Raises:
        SchemaError: a column is missing or of another type.
    """
    requests = require(requests, REQUESTS, "requests")
    events = require(events, EVENTS, "events")
    return requests.groupBy("host").cogroup(events.groupBy("host")).applyInArrow(_satisfy_host, SATISFACTIONS)


def batch_outcomes(requests: DataFrame, events: DataFrame) -> DataFrame:
    """The outcomes alone (`schema.OUTCOMES`); otherwise as `satisfactions`."""
    return satisfactions(requests, events).select(*OUTCOMES.names)


def _satisfy_host(requests: pa.Table, events: pa.Table) -> pa.Table:
    arrived = epoch_us(requests.column("arrived_at"))
    timeout_us = np.asarray(requests.column("timeout_ms").to_numpy(), dtype=np.int64) * 1000
    satisfied = satisfied_us(requests, events)
    outcomes = outcome_table(requests, arrived, arrived + timeout_us, satisfied)
    return outcomes.append_column("satisfied_at", pa.array(satisfied, pa.timestamp("us", tz="UTC"), mask=satisfied == NEVER))


def outcome_table(requests: pa.Table, arrived_us: Ints, deadline_us: Ints, satisfied: Ints) -> pa.Table:
    """The outcomes of requests that were satisfied at `satisfied`, or expired at their deadline."""
    completed = satisfied <= deadline_us
    ended = np.where(completed, satisfied, deadline_us)
    return pa.table(
        {
            "host": requests.column("host"),
            "request_id": requests.column("request_id"),
            "request_type": requests.column("request_type"),
            "arrived_at": requests.column("arrived_at"),
            "ended_at": pa.array(ended, pa.timestamp("us", tz="UTC")),
            "outcome": pa.array([EXPIRED, COMPLETED]).take(pa.array(completed.astype(np.int64))),
            "waited_ms": pa.array((ended - arrived_us) / 1000),
        }
    )
