"""Outcomes counted in one pass, by all that the tables of an analysis are about."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis.time_bins import TimeBins
from purgatory_spark._analysis.wait_buckets import bucket_of
from purgatory_spark._rows.schema import EXPIRED
from purgatory_spark._traces.marks import Mark


def count_outcomes(outcomes: DataFrame, bins: TimeBins, marks: list[Mark]) -> DataFrame:
    """Count outcomes in one pass, for all tables of an analysis.

    The result has three kinds of rows: by host, type, era (the number of marks before the arrival)
    and both waits; by the bin of the arrival; and by the bin of the end. There are as many as
    combinations of these, so the result is small where the waits of many requests are counted.

    `outcomes`: rows of `schema.OUTCOMES` with `satisfied_at`. Returns `host`, `request_type`,
    `era`, `wait` and `uncut` (buckets; `uncut` is null if the condition never holds),
    `arrived_bin`, `ended_bin`, of which those by which a row is not counted are null; and
    `requests`, `expired`, `waited_us` (a sum), `longest_us`, `longest_uncut_us`.
    """
    arrived_us = F.unix_micros("arrived_at")
    eras = [(F.col("arrived_at") >= F.lit(at)).cast("int") for at in {mark.at for mark in marks}]
    waits = outcomes.select(
        "host",
        "request_type",
        sum(eras, F.lit(0)).alias("era"),
        (F.unix_micros("ended_at") - arrived_us).alias("wait_us"),
        (F.unix_micros("satisfied_at") - arrived_us).alias("uncut_us"),
        (F.col("outcome") == EXPIRED).alias("is_expired"),
        bins.number_of(F.col("arrived_at")).alias("arrived_bin"),
        bins.number_of(F.col("ended_at")).alias("ended_bin"),
    ).select(
        "*", bucket_of(F.col("wait_us")).alias("wait"), bucket_of(F.col("uncut_us")).alias("uncut")
    )
    # Fewer buckets for each of many bins.
    waits = waits.withColumn("coarse_wait", F.floor(F.col("wait") / 10))
    sets = [
        ["host", "request_type", "era", "wait", "uncut"],
        ["arrived_bin", "coarse_wait"],
        ["ended_bin"],
    ]
    columns = [name for names in sets for name in names]
    counts = waits.groupingSets([[F.col(name) for name in names] for names in sets], *columns)
    return counts.agg(
        F.count("*").alias("requests"),
        F.count_if("is_expired").alias("expired"),
        F.sum(F.col("wait_us").cast("double")).alias("waited_us"),
        F.max("wait_us").alias("longest_us"),
        F.max("uncut_us").alias("longest_uncut_us"),
    )
