"""Buckets of waiting times in Spark tables, whose counts add up, and quantiles of such counts.

A bucket depends on the wait alone. So the counts of parts of a table add up to those of the whole,
in any order and by any number of tasks, where sketches of quantiles are merged by one task.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis.wait_scale import (
    BINS_PER_DECADE,
    BUCKETS_PER_BIN,
    BUCKETS_PER_DECADE,
    SHORTEST_US,
)


def bucket_of(wait_us: Column) -> Column:
    """Return the bucket of each wait, a whole number, larger for longer waits; null for null."""
    wait_ms = F.when(wait_us > SHORTEST_US, wait_us).otherwise(F.lit(SHORTEST_US)) / 1000
    bucket = F.floor(F.log10(wait_ms) * BUCKETS_PER_DECADE)
    return F.when(wait_us.isNotNull(), bucket).cast("int")


def bin_of(bucket: Column) -> Column:
    """Return the bin of each bucket: bin i begins at 10**(i/20) ms."""
    return F.floor(bucket / F.lit(BUCKETS_PER_BIN))


def bin_start_ms(number: Column) -> Column:
    """Return the lower end of each bin in ms."""
    return F.pow(F.lit(10.0), number / BINS_PER_DECADE)


def ranked(
    counts: DataFrame, groups: Sequence[str], order: Sequence[str], sums: Sequence[str]
) -> DataFrame:
    """Add up counted waits, and rank them for `quantile`.

    `counts`: for each group and bucket, in any number of rows: the columns of `groups`, those of
    `order`, `number` (of waits), `largest` (of these), and those of `sums`. `order`: columns by
    which waits are ranked, such as the bucket; null is after all others. Returns a row for each
    bucket of a group, with these columns, `rank`: the number of waits in the bucket and in those
    before, and `total`: that of all waits of the group. The rows of a group are in one partition.
    """
    by_bucket = counts.groupBy(*groups, *order).agg(
        *[F.sum(name).alias(name) for name in ("number", *sums)], F.max("largest").alias("largest")
    )
    of_group = Window.partitionBy(*groups)
    in_order = of_group.orderBy(*[F.asc_nulls_last(name) for name in order])
    up_to = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    number = F.sum("number")
    return by_bucket.withColumns({"rank": number.over(up_to), "total": number.over(of_group)})


def quantile(share: float, rank: Column | None = None) -> Column:
    """Return an aggregate over the rows of `ranked` of a group: a quantile of its waits.

    `share`: 0.99 asks for the least wait such that 99 % of all waits are at most as long. `rank`:
    the rank among them; the column `rank` if None. Returns the largest wait in that wait's bucket,
    in the unit of `largest`. So it is at most 0.24 % too long. It is null if the bucket is.
    """
    # Without the last digits of a product: the rank of 0.9 of ten is nine.
    reached = (F.col("rank") if rank is None else rank) >= F.ceil(F.col("total") * share - 1e-9)
    return F.min(F.when(reached & (F.col("number") > 0), F.col("largest")))
