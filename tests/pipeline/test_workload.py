"""The published workload: its distributions, and that it is the same however it is made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from request_purgatory import InvalidArgumentError
from request_purgatory.pipeline.batch import batch_outcomes
from request_purgatory.pipeline.schema import EVENTS, REQUESTS, require
from request_purgatory.pipeline.workload import BLOCK, CASES, HIGH_TIMEOUT, LOW_TIMEOUT, Workload, workload_trace


def rows(table: DataFrame) -> list[tuple[object, ...]]:
    """All rows, in an order of their own."""
    return sorted(map(tuple, table.collect()), key=repr)


def test_same_rows_whatever_the_partitioning(spark: SparkSession) -> None:
    """One task or three, and whatever came after the first requests."""
    small = replace(LOW_TIMEOUT, requests=BLOCK + 1000)
    one = workload_trace(spark, small, partitions=1)
    three = workload_trace(spark, replace(small, requests=2 * BLOCK + 5), partitions=3)
    first = three[0].where(f"request_id < '{BLOCK + 1000:012d}'")
    assert one[0].exceptAll(first).count() == first.exceptAll(one[0]).count() == 0
    assert one[0].rdd.getNumPartitions() == 1
    assert one[0].count() == one[1].count() == BLOCK + 1000


def test_another_seed_is_another_workload(spark: SparkSession) -> None:
    """Hardly an arrival falls on the same microsecond."""
    small = replace(LOW_TIMEOUT, requests=100)
    other = workload_trace(spark, replace(small, seed=2))[0]
    assert workload_trace(spark, small)[0].join(other, "arrived_at").count() < 5


def test_trace_has_the_pipelines_schema(spark: SparkSession) -> None:
    """So every part of the pipeline takes it."""
    requests, events = workload_trace(spark, replace(LOW_TIMEOUT, requests=10))
    assert require(requests, REQUESTS, "requests").schema == REQUESTS
    assert require(events, EVENTS, "events").schema == EVENTS


def test_arrivals_are_a_poisson_process_of_the_rate(spark: SparkSession) -> None:
    """Gaps of the mean 1/rate with the standard deviation of an exponential distribution, across blocks too."""
    workload = replace(LOW_TIMEOUT, requests=2 * BLOCK, rate=1000.0)
    arrived = workload_trace(spark, workload)[0].selectExpr("unix_micros(arrived_at) us").orderBy("us").toPandas()["us"]
    gaps = np.diff(arrived.to_numpy()) / 1000
    assert gaps.mean() == pytest.approx(1.0, rel=0.02)
    assert gaps.std() == pytest.approx(1.0, rel=0.03)
    assert np.quantile(gaps, 0.5) == pytest.approx(np.log(2), rel=0.03)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_expired_share_is_that_of_the_distribution(spark: SparkSession, case: Workload) -> None:
    """And the service times' median and 75th percentile are the published ones."""
    requests, events = workload_trace(spark, replace(case, requests=BLOCK, hosts=3))
    outcomes = batch_outcomes(requests, events)
    expired = outcomes.where("outcome = 'expired'").count() / BLOCK
    assert expired == pytest.approx(case.expected_expired_share, abs=0.006)
    service = requests.join(events, requests["watch_keys"][0] == events["key"]).selectExpr(
        "(unix_micros(occurred_at) - unix_micros(arrived_at)) / 1000 AS ms"
    )
    median, p75 = service.approxQuantile("ms", [0.5, 0.75], 0.0001)
    assert median == pytest.approx(case.median_ms, rel=0.03)
    assert p75 == pytest.approx(case.p75_ms, rel=0.03)


def test_requests_watch_their_own_key_and_shared_ones(spark: SparkSession) -> None:
    """As many shared ones as asked for, out of a pool of that size, on hosts of that number."""
    requests, _ = workload_trace(spark, replace(HIGH_TIMEOUT, requests=500, hosts=3, keys=2, shared_keys=3))
    for row in requests.collect():
        assert row["watch_keys"][0] == f"ack-{row['request_id']}"
        assert len(row["watch_keys"]) == 4
        assert set(row["watch_keys"][1:]) <= {"key-0", "key-1"}
    assert {row["host"] for row in requests.collect()} == {"host-0", "host-1", "host-2"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("requests", 0), ("hosts", 0), ("keys", 0), ("shared_keys", -1), ("timeout_ms", -1), ("rate", 0.0), ("median_ms", 60.0)],
)
def test_impossible_workload_is_refused_with_the_value(name: str, value: float) -> None:
    """Named, with what it was."""
    with pytest.raises(InvalidArgumentError, match=f"{name} must be .*got {value}"):
        replace(LOW_TIMEOUT, **{name: value})
