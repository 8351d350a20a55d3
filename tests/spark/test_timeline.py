"""The timeline against a count by hand, where times are hard to put into bins."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.analysis.analysis import timeline
from request_purgatory.pipeline.traces.importers.imported import FIRST_US, LAST_US
from tests.spark.trace_folders import rows_of


@pytest.mark.parametrize(
    ("first_us", "bin_us"),
    [
        (-3_600_000_001, 60_000_000),
        (FIRST_US, 1000),
        (LAST_US - 60_000_000, 1000),
        (1_661_169_600_000_000, 500_000),
    ],
    ids=["about 1970", "1900", "2199", "today"],
)
def test_every_microsecond_stands_in_its_bin(
    spark: SparkSession, first_us: int, bin_us: int
) -> None:
    """Times just before and at the ends of bins, and what is pending at each bin's end."""
    chosen = random.Random(bin_us)
    edges = [
        (first_us // bin_us + number) * bin_us + by for number in range(1, 40) for by in (-1, 0, 1)
    ]
    waits = [sorted(chosen.sample(edges, 2)) for _ in range(60)]
    given = [(came, went, chosen.choice(["completed", "expired"])) for came, went in waits]
    outcomes = spark.createDataFrame(given, "a long, e long, outcome string")
    outcomes = outcomes.selectExpr(
        "timestamp_micros(a) AS arrived_at", "timestamp_micros(e) AS ended_at", "outcome"
    )
    first, last = min(came for came, _, _ in given), max(went for _, went, _ in given)
    expected = []
    for at in range(first // bin_us * bin_us, last + 1, bin_us):
        arrived = [outcome for came, _, outcome in given if at <= came < at + bin_us]
        expected.append(
            {
                "us": at,
                "arrived": len(arrived),
                "ended": sum(at <= went < at + bin_us for _, went, _ in given),
                "expired": arrived.count("expired"),
                "pending": sum(came < at + bin_us <= went for came, went, _ in given),
            }
        )
    found = timeline(outcomes, first, last, bin_us).selectExpr(
        "unix_micros(from_at) AS us", "arrived", "ended", "expired", "pending"
    )
    assert sorted(rows_of(found), key=lambda row: row["us"]) == expected
