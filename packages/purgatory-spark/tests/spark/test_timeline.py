"""The timeline, compared with a plain count, for times that are hard to put into bins."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from purgatory_spark._analysis.aggregates import count_outcomes, timeline
from purgatory_spark._analysis.time_bins import TimeBins
from purgatory_spark._rows.checks import MAX_TIME_US, MIN_TIME_US
from tests.spark.trace_folders import rows_of


def most_pending(given: list[tuple[int, int, str]], from_us: int, to_us: int) -> int:
    """Count what is pending just before a bin begins, and after each arrival in it."""
    moments = [arrived_us for arrived_us, _, _ in given if from_us <= arrived_us < to_us]
    return max(
        [
            sum(arrived_us < from_us <= ended_us for arrived_us, ended_us, _ in given),
            *(
                sum(arrived_us <= moment < ended_us for arrived_us, ended_us, _ in given)
                for moment in moments
            ),
        ]
    )


@pytest.mark.parametrize(
    ("first_us", "bin_us"),
    [
        (-3_600_000_001, 60_000_000),
        (MIN_TIME_US, 1000),
        (MAX_TIME_US - 60_000_000, 1000),
        (1_661_169_600_000_000, 500_000),
    ],
    ids=["about 1970", "1900", "2199", "today"],
)
def test_every_microsecond_is_in_its_bin(spark: SparkSession, first_us: int, bin_us: int) -> None:
    generator = random.Random(bin_us)
    edges = [
        (first_us // bin_us + number) * bin_us + by for number in range(1, 40) for by in (-1, 0, 1)
    ]
    waits = [sorted(generator.sample(edges, 2)) for _ in range(60)]
    given = [
        (arrived_us, ended_us, generator.choice(["completed", "expired"]))
        for arrived_us, ended_us in waits
    ]
    outcomes = spark.createDataFrame(given, "a long, e long, outcome string")
    outcomes = outcomes.selectExpr(
        "timestamp_micros(a) AS arrived_at",
        "timestamp_micros(e) AS ended_at",
        "outcome",
        "'h' AS host",
        "'t' AS request_type",
        "timestamp_micros(e) AS satisfied_at",
    )
    first, last = (
        min(arrived_us for arrived_us, _, _ in given),
        max(ended_us for _, ended_us, _ in given),
    )
    expected = []
    for at in range(first // bin_us * bin_us, last + 1, bin_us):
        arrived = [outcome for arrived_us, _, outcome in given if at <= arrived_us < at + bin_us]
        expected.append(
            {
                "us": at,
                "arrived": len(arrived),
                "ended": sum(at <= ended_us < at + bin_us for _, ended_us, _ in given),
                "expired": arrived.count("expired"),
                "pending": sum(
                    arrived_us < at + bin_us <= ended_us for arrived_us, ended_us, _ in given
                ),
                "peak_pending": most_pending(given, at, at + bin_us),
            }
        )
    bins = TimeBins(first // bin_us, last // bin_us, bin_us)
    found = timeline(count_outcomes(outcomes, bins, []), outcomes, bins).selectExpr(
        "unix_micros(from_at) AS us", "arrived", "ended", "expired", "pending", "peak_pending"
    )
    assert sorted(rows_of(found), key=lambda row: row["us"]) == expected
