"""What-if against a plain model, and against what a replay saw."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from request_purgatory import InvalidArgumentError
from request_purgatory.pipeline.batch import satisfactions
from request_purgatory.pipeline.replay import replay
from request_purgatory.pipeline.what_if import peak_pending, suggest_timeouts, what_if
from request_purgatory.pipeline.workload import Workload, workload_trace

SMALL = Workload(requests=3000, hosts=2, rate=5000.0)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=30))
def test_peak_is_the_most_at_any_moment(waits: list[tuple[int, int]]) -> None:
    """One that ends just as another arrives is gone by then."""
    spans = [(arrived, arrived + waited) for arrived, waited in waits]
    most = max((sum(start <= now < end for start, end in spans) for now in range(51)), default=0)
    arrived = np.sort(np.array([start for start, _ in spans], dtype=np.int64))
    ended = np.array([end for _, end in sorted(spans)], dtype=np.int64)
    assert peak_pending(arrived, ended) == most


def test_timeout_in_use_gives_what_happened(spark: SparkSession) -> None:
    """As many expired, as much waiting, and the same peak as a real purgatory had."""
    requests, events = workload_trace(spark, SMALL)
    outcomes = satisfactions(requests, events).persist()
    row = what_if(outcomes, [200], 100.0).collect()[0]
    expired = outcomes.where("outcome = 'expired'")
    assert row["requests"] == 3000
    assert row["expired"] == expired.count() > 0
    assert row["in_vain_ms"] == expired.count() * 200
    assert row["mean_waited_ms"] == pytest.approx(outcomes.agg({"waited_ms": "avg"}).collect()[0][0])
    hosts = replay(requests, events).where("kind = 'hosts'").select("stats.peak_pending").collect()
    # A real timer holds what has expired for the rest of its tick, so it may have held a few more.
    assert row["peak_pending"] <= max(host["peak_pending"] for host in hosts) <= row["peak_pending"] + 10
    assert row["peak_bytes"] == row["peak_pending"] * 100
    outcomes.unpersist()


def test_longer_timeouts_expire_fewer_and_hold_more(spark: SparkSession) -> None:
    """Each timeout once, in order, however they were given."""
    outcomes = satisfactions(*workload_trace(spark, SMALL))
    rows = what_if(outcomes, [1000, 10, 100, 10, 0], 100.0).collect()
    assert [row["timeout_ms"] for row in rows] == [0, 10, 100, 1000]
    assert rows[0]["expired_share"] == 1.0
    assert rows[0]["peak_pending"] == 0
    shares = [row["expired_share"] for row in rows]
    assert shares == sorted(shares, reverse=True)
    peaks = [row["peak_pending"] for row in rows]
    assert peaks == sorted(peaks)


def test_suggested_timeouts_span_the_service_times(spark: SparkSession) -> None:
    """Round steps from the first quartile up, to where next to nothing expires; one step if nothing was ever satisfied."""
    requests, events = workload_trace(spark, SMALL)
    suggested = suggest_timeouts(satisfactions(requests, events))
    assert suggested[0] in (10, 20)
    assert 2000 <= suggested[-1] <= 20_000
    assert suggest_timeouts(satisfactions(requests, events.limit(0)))


@pytest.mark.parametrize("timeouts", [[], [5, -1]])
def test_impossible_timeouts_are_refused(spark: SparkSession, timeouts: list[int]) -> None:
    """By their value."""
    outcomes = satisfactions(*workload_trace(spark, SMALL))
    with pytest.raises(InvalidArgumentError, match=r"timeouts must be one or more .* got \["):
        what_if(outcomes, timeouts, 1.0)
