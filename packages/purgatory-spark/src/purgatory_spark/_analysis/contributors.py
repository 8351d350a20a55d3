"""Hosts and request types that expired requests are of, and that changed at a mark."""

from __future__ import annotations

import math

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis.small_tables import ContributorRow

#: Rows of each comparison.
_MOST = 3

#: A share stands out from another one if it is so many times as large, or as small, and differs by
#: so many standard errors.
_FACTOR = 2.0
_STANDARD_ERRORS = 3.0
#: With fewer expired requests, shares are chance.
_MIN_EXPIRED = 10

_GROUP = ("label", "at", "dimension")
_COUNTS = ("requests", "expired", "other_requests", "other_expired")


def find_contributors(summary: DataFrame, marks: DataFrame | None) -> DataFrame:
    """Find the hosts and request types that contribute most to the expired requests.

    Requests whose answer may be none (`suspected`) count as expired.

    `marks`: the table `marks`; None if the trace has no marks. Returns for each `dimension` (host
    or request_type) at most three rows, the largest first: `value`, `requests` and `expired` of it,
    and `other_requests` and `other_expired` of all others; `extra` (how many more requests of it
    expired than with the others' expired share) and `rank`. `label` and `at` are null. For each
    mark too, with its `label` and `at`: the first two counts are of the requests after the mark,
    the other two of the same host or type before it. `extra` is how many more requests expired
    after the mark than with the share before it, and `extra_of_all` the same of all values of the
    dimension. They are negative where fewer expired; then the least is first.
    """
    is_part = F.col("dimension") != "all"
    summary, marks = _with_suspected(summary), None if marks is None else _with_suspected(marks)
    no_mark = (F.lit(None).cast("string").alias("label"), F.lit(None).cast("timestamp").alias("at"))
    of_dimension = Window.partitionBy("dimension")
    compared = summary.where(is_part).select(
        *no_mark,
        "dimension",
        "value",
        "requests",
        "expired",
        *[
            (F.sum(name).over(of_dimension) - F.col(name)).alias(f"other_{name}")
            for name in ("requests", "expired")
        ],
    )
    if marks is not None:
        compared = compared.unionByName(
            marks.where(is_part).groupBy(*_GROUP, "value").agg(*_of_both_sides())
        )
    other_share = F.coalesce(
        F.try_divide(F.col("other_expired"), F.col("other_requests")), F.lit(0.0)
    )
    extra, extra_of_all = F.col("extra"), F.col("extra_of_all")
    # Without a mark, only what expires more often than the others is of interest.
    size = F.when(F.col("at").isNotNull() & (extra_of_all < 0), -extra).otherwise(extra)
    comparison = Window.partitionBy(*_GROUP)
    return (
        compared.withColumn("extra", F.col("expired") - F.col("requests") * other_share)
        .withColumn("extra_of_all", F.sum("extra").over(comparison))
        .withColumn("rank", F.row_number().over(comparison.orderBy(F.desc(size), "value")))
        .where(F.col("rank") <= _MOST)
        .select(*_GROUP, "rank", "value", *_COUNTS, "extra", "extra_of_all")
        .coalesce(1)
        .sortWithinPartitions(F.col("at").asc_nulls_first(), "label", "dimension", "rank")
    )


def _with_suspected(counted: DataFrame) -> DataFrame:
    return counted.withColumn("expired", F.col("expired") + F.col("suspected"))


def _of_both_sides() -> list[Column]:
    return [
        F.sum(F.when(F.col("side") == side, F.col(name)).otherwise(F.lit(0))).alias(prefix + name)
        for side, prefix in (("after", ""), ("before", "other_"))
        for name in ("requests", "expired")
    ]


def stands_out(row: ContributorRow) -> bool:
    """Return whether the expired shares of a contributor and of the others clearly differ.

    They do if one is at least twice the other, and if they differ by three standard errors, as
    independent requests have them. A share of fewer than ten expired requests never does.
    """
    requests, expired = row["requests"], row["expired"]
    others, others_expired = row["other_requests"], row["other_expired"]
    if max(expired, others_expired) < _MIN_EXPIRED:
        return False
    if not requests or not others:
        return bool(requests) and row["at"] is not None  # new since the mark
    share, other_share = expired / requests, others_expired / others
    if max(share, other_share) < _FACTOR * min(share, other_share):
        return False
    return is_clear(requests, expired, others, others_expired)


def is_clear(requests: int, expired: int, others: int, others_expired: int) -> bool:
    """Return whether two expired shares differ by at least three standard errors."""
    if not requests or not others:
        return False
    pooled = (expired + others_expired) / (requests + others)
    error = math.sqrt(pooled * (1 - pooled) * (1 / requests + 1 / others))
    difference = abs(expired / requests - others_expired / others)
    return error > 0 and difference >= _STANDARD_ERRORS * error
