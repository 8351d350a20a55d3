"""What-if analysis: the outcomes of a trace under other timeouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.outcomes.condition import NEVER, Ints, epoch_us
from request_purgatory.pipeline.traces.schema import MAX_TIMEOUT_MS

#: One host under one timeout. `waited_ms` is the sum of all requests' waits, `expired_waited_ms`
#: that of the expired ones.
HOST_WHAT_IF = T.StructType([
    T.StructField("host", T.StringType()),
    T.StructField("timeout_ms", T.LongType()),
    T.StructField("requests", T.LongType()),
    T.StructField("expired", T.LongType()),
    T.StructField("expired_waited_ms", T.DoubleType()),
    T.StructField("waited_ms", T.DoubleType()),
    T.StructField("peak_pending", T.LongType()),
])

#: Default candidates for timeouts: 1, 2, 5, 10, ... ms up to about 83 minutes.
STEPS = tuple(digit * 10**power for power in range(7) for digit in (1, 2, 5))


def suggest_timeouts(satisfactions: DataFrame) -> list[int]:
    """Suggest timeouts to try for a trace.

    Args:
        satisfactions: Rows of `batch.SATISFACTIONS`.

    Returns:
        The `STEPS` from the first quartile of the service times to twice their 99.95th percentile,
        in ms, ascending; at least one.
    """
    service_ms = (F.unix_micros("satisfied_at") - F.unix_micros("arrived_at")) / 1000
    row = (
        satisfactions
        .select(service_ms.alias("service_ms"))
        .agg(F.percentile_approx("service_ms", [0.25, 0.9995], 100_000).alias("span"))
        .first()
    )
    low, high = row["span"] if row is not None and row["span"] else (1.0, 1000.0)
    chosen = [step for step in STEPS if low <= step <= 2 * max(high, 1.0)]
    return chosen or [STEPS[0]]


def what_if(satisfactions: DataFrame, timeouts: list[int], bytes_per_operation: float) -> DataFrame:
    """Compute what each timeout would have done to a trace.

    Args:
        satisfactions: Rows of `batch.SATISFACTIONS`.
        timeouts: Whole milliseconds; each replaces the timeout of every request in turn.
        bytes_per_operation: Memory of one pending request.

    Returns:
        One row for each timeout, ascending: `timeout_ms`, `requests`, `expired`, `expired_share`,
        `expired_waited_ms` (the sum over the expired requests), `mean_waited_ms`, and the
        `peak_pending` and `peak_bytes` of the host where they are largest, as one process has to
        hold them.

    Raises:
        InvalidArgumentError: `timeouts` is empty, or a timeout is negative or longer than a trace
            may have.
    """
    if not timeouts or min(timeouts) < 0 or max(timeouts) > MAX_TIMEOUT_MS:
        raise InvalidArgumentError(
            "timeouts",
            f"one or more numbers of milliseconds from 0 to {MAX_TIMEOUT_MS:,}",
            timeouts,
        )
    hosts = satisfactions.select("host", "arrived_at", "satisfied_at").groupBy("host")
    by_host = hosts.applyInArrow(_host_what_if(sorted(set(timeouts))), HOST_WHAT_IF)
    return (
        by_host
        .groupBy("timeout_ms")
        .agg(
            F.sum("requests").alias("requests"),
            F.sum("expired").alias("expired"),
            (F.sum("expired") / F.sum("requests")).alias("expired_share"),
            F.sum("expired_waited_ms").alias("expired_waited_ms"),
            (F.sum("waited_ms") / F.sum("requests")).alias("mean_waited_ms"),
            F.max("peak_pending").alias("peak_pending"),
        )
        .withColumn("peak_bytes", F.col("peak_pending") * F.lit(float(bytes_per_operation)))
        .orderBy("timeout_ms")
    )


def _host_what_if(timeouts: list[int]) -> Callable[[pa.Table], pa.Table]:
    def host_what_if(table: pa.Table) -> pa.Table:
        arrived = epoch_us(table.column("arrived_at"))
        order = np.argsort(arrived, kind="stable")
        arrived = arrived[order]
        satisfied = epoch_us(
            table.column("satisfied_at").fill_null(
                pa.scalar(int(NEVER), pa.timestamp("us", tz="UTC"))
            )
        )[order]
        rows: list[dict[str, Any]] = []
        for timeout_ms in timeouts:
            deadline = arrived + timeout_ms * 1000
            completed = satisfied <= deadline
            ended = np.where(completed, satisfied, deadline)
            expired = int(np.count_nonzero(~completed))
            rows.append({
                "host": table.column("host")[0].as_py(),
                "timeout_ms": timeout_ms,
                "requests": len(arrived),
                "expired": expired,
                "expired_waited_ms": float(expired * timeout_ms),
                "waited_ms": float(np.sum(ended - arrived, dtype=np.float64)) / 1000,
                "peak_pending": peak_pending(arrived, ended),
            })
        return pa.Table.from_pylist(rows)

    return host_what_if


def peak_pending(arrived: Ints, ended: Ints) -> int:
    """Return the largest number of requests that were pending at one time.

    A request that ends when another arrives is not pending any more at that time.

    Args:
        arrived: Times of arrival, ascending.
        ended: Times of the same requests' ends, row by row. A request that ends on arrival was
            never pending.

    Returns:
        The number; 0 without requests.
    """
    waited = ended > arrived
    arrived, ended = arrived[waited], np.sort(ended[waited])
    if not len(arrived):
        return 0
    ended_before = np.searchsorted(ended, arrived, side="right")
    return int(np.max(np.arange(1, len(arrived) + 1) - ended_before))
