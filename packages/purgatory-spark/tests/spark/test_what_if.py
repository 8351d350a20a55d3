"""What-if analysis, compared with a plain model and with a replay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis.timeout_trials import pending_rise
from purgatory_spark._analysis.what_if import suggest_timeouts, what_if
from purgatory_spark._outcomes.batch import satisfactions
from purgatory_spark._outcomes.replay import replay
from purgatory_spark._traces.workload import Workload
from purgatory_spark._traces.workload_blocks import workload_trace
from request_purgatory import InvalidArgumentError

SMALL = Workload(requests=3000, hosts=2, rate=5000.0)


@pytest.fixture(scope="module")
def trace(spark: SparkSession) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Make the small workload's requests and events."""
    tables = [table.persist() for table in workload_trace(spark, SMALL)]
    yield tables[0], tables[1]
    for table in tables:
        table.unpersist()


@pytest.fixture(scope="module")
def satisfied(trace: tuple[DataFrame, DataFrame]) -> Iterator[DataFrame]:
    """Compute when the workload's requests are satisfied."""
    table = satisfactions(*trace).persist()
    yield table
    table.unpersist()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=30))
def test_peak_pending_is_the_maximum_over_time(waits: list[tuple[int, int]]) -> None:
    spans = [(arrived, arrived + waited) for arrived, waited in waits]
    most = max((sum(start <= now < end for start, end in spans) for now in range(51)), default=0)
    arrived = np.sort(np.array([start for start, _ in spans], dtype=np.int64))
    ended = np.array([end for _, end in sorted(spans)], dtype=np.int64)
    waited = ended > arrived
    assert pending_rise(arrived[waited], ended[waited]) == most


def test_timeout_in_use_gives_the_actual_outcomes(
    trace: tuple[DataFrame, DataFrame], satisfied: DataFrame
) -> None:
    row = what_if(satisfied, [200], 100.0).collect()[0]
    outcomes = satisfied.select("outcome", "waited_ms").toArrow().to_pydict()
    expired = outcomes["outcome"].count("expired")
    assert row["requests"] == 3000
    assert row["expired"] == expired > 0
    assert row["expired_waited_ms"] == expired * 200
    assert row["mean_waited_ms"] == pytest.approx(np.mean(outcomes["waited_ms"]))
    hosts = replay(*trace).where("kind = 'hosts'").select("stats.peak_pending").collect()
    # A real timer holds expired requests for the rest of the tick, so its peak may be larger.
    assert (
        row["peak_pending"]
        <= max(host["peak_pending"] for host in hosts)
        <= row["peak_pending"] + 10
    )
    assert row["peak_bytes"] == row["peak_pending"] * 100


def test_longer_timeouts_expire_fewer_and_hold_more(satisfied: DataFrame) -> None:
    rows = what_if(satisfied, [1000, 10, 100, 10, 0], 100.0).collect()
    assert [row["timeout_ms"] for row in rows] == [0, 10, 100, 1000]
    assert rows[0]["expired_share"] == 1.0
    assert rows[0]["peak_pending"] == 0
    shares = [row["expired_share"] for row in rows]
    assert shares == sorted(shares, reverse=True)
    peaks = [row["peak_pending"] for row in rows]
    assert peaks == sorted(peaks)


@pytest.mark.parametrize("slices", [2, 40])
def test_cut_host_gives_the_same_rows(satisfied: DataFrame, slices: int) -> None:
    timeouts = [0, 5, 200, 10_000_000]
    whole = what_if(satisfied, timeouts, 100.0).toArrow().to_pylist()
    hosts = sorted(row["host"] for row in satisfied.select("host").distinct().collect())
    for cut in (hosts[:1], hosts):
        parts = dict.fromkeys(cut, slices)
        rows = what_if(satisfied, timeouts, 100.0, parts=parts).toArrow().to_pylist()
        for row, expected in zip(rows, whole, strict=True):
            # Sums of doubles, in another order.
            assert row.pop("mean_waited_ms") == pytest.approx(expected["mean_waited_ms"])
            assert row == {name: expected[name] for name in row}


def test_suggested_timeouts_span_the_service_times(satisfied: DataFrame) -> None:
    suggested = suggest_timeouts(satisfied)
    assert suggested[0] in (10, 20)
    assert 2000 <= suggested[-1] <= 20_000
    never = satisfied.withColumn("satisfied_at", F.lit(None).cast("timestamp"))
    assert suggest_timeouts(never)


@pytest.mark.parametrize("timeouts", [[], [5, -1]])
def test_impossible_timeouts_are_refused(satisfied: DataFrame, timeouts: list[int]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"timeouts must be one or more .* got \["):
        what_if(satisfied, timeouts, 1.0)
