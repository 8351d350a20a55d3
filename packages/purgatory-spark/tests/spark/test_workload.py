"""Tests of synthetic workloads: their distributions and their reproducibility."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._outcomes.batch import satisfactions
from purgatory_spark._rows.schema import EVENTS, REQUESTS, require
from purgatory_spark._traces.workload import CASES, HIGH_TIMEOUT, LOW_TIMEOUT, Workload
from purgatory_spark._traces.workload_blocks import BLOCK, workload_trace
from request_purgatory import InvalidArgumentError


def test_rows_do_not_depend_on_the_partitioning(spark: SparkSession) -> None:
    small = replace(LOW_TIMEOUT, requests=BLOCK + 1000)
    one = workload_trace(spark, small, partitions=1)
    three = workload_trace(spark, replace(small, requests=2 * BLOCK + 5), partitions=3)
    assert one[0].rdd.getNumPartitions() == 1
    found = [table.toArrow().sort_by("request_id") for table in (one[0], three[0])]
    assert found[0].num_rows == one[1].count() == BLOCK + 1000
    assert found[0].equals(found[1].slice(0, BLOCK + 1000))


def test_another_seed_is_another_workload(spark: SparkSession) -> None:
    small = replace(LOW_TIMEOUT, requests=100)
    first, other = (
        workload_trace(spark, replace(small, seed=seed))[0].toArrow() for seed in (1, 2)
    )
    assert first.num_rows == other.num_rows == 100
    assert len(set(first["arrived_at"].to_pylist()) & set(other["arrived_at"].to_pylist())) < 5


def test_trace_has_the_pipelines_schema(spark: SparkSession) -> None:
    requests, events = workload_trace(spark, replace(LOW_TIMEOUT, requests=10))
    assert require(requests, REQUESTS, "requests").schema == REQUESTS
    assert require(events, EVENTS, "events").schema == EVENTS


def test_arrivals_are_a_poisson_process(spark: SparkSession) -> None:
    workload = replace(LOW_TIMEOUT, requests=2 * BLOCK, rate=1000.0)
    arrived = (
        workload_trace(spark, workload)[0]
        .selectExpr("unix_micros(arrived_at) us")
        .orderBy("us")
        .toPandas()["us"]
    )
    gaps = np.diff(arrived.to_numpy()) / 1000
    assert gaps.mean() == pytest.approx(1.0, rel=0.02)
    assert gaps.std() == pytest.approx(1.0, rel=0.03)
    assert np.quantile(gaps, 0.5) == pytest.approx(np.log(2), rel=0.03)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_expired_share_and_service_times_have_the_expected_values(
    spark: SparkSession, case: Workload
) -> None:
    requests, events = workload_trace(spark, replace(case, requests=BLOCK, hosts=3))
    outcomes = satisfactions(requests, events).select(
        "outcome", (F.unix_micros("satisfied_at") - F.unix_micros("arrived_at")).alias("service_us")
    )
    found = outcomes.toArrow().to_pydict()
    assert found["outcome"].count("expired") / BLOCK == pytest.approx(
        case.expected_expired_share, abs=0.006
    )
    median, p75 = np.quantile(found["service_us"], [0.5, 0.75]) / 1000
    assert median == pytest.approx(case.median_ms, rel=0.03)
    assert p75 == pytest.approx(case.p75_ms, rel=0.03)


def test_requests_watch_their_own_key_and_shared_ones(spark: SparkSession) -> None:
    requests, _ = workload_trace(
        spark, replace(HIGH_TIMEOUT, requests=500, hosts=3, keys=2, shared_keys=3)
    )
    rows = requests.collect()
    for row in rows:
        assert row["watch_keys"][0] == f"ack-{row['request_id']}"
        assert len(row["watch_keys"]) == 4
        assert set(row["watch_keys"][1:]) <= {"key-0", "key-1"}
    assert {row["host"] for row in rows} == {"host-0", "host-1", "host-2"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("requests", 0),
        ("hosts", 0),
        ("keys", 0),
        ("shared_keys", -1),
        ("timeout_ms", -1),
        ("rate", 0.0),
        ("median_ms", 60.0),
    ],
)
def test_invalid_workload_is_an_error(name: str, value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be .*got {value}"):
        replace(LOW_TIMEOUT, **{name: value})
