"""What-if analysis, compared with a plain model and with a replay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from purgatory_spark._analysis.aggregates import answers_of
from purgatory_spark._analysis.answer_times import AnswerTimes
from purgatory_spark._analysis.timeout_trials import SUGGESTED_QUANTILES, timeouts_for, what_if_of
from purgatory_spark._analysis.what_if import what_if
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


@given(
    st.lists(st.tuples(st.integers(-5, 30), st.none() | st.integers(0, 20)), max_size=30),
    st.integers(-6, 20),
    st.integers(0, 30),
)
def test_what_timeouts_do_is_counted_at_every_time(
    waits: list[tuple[int, int | None]], start: int, length: int
) -> None:
    end = start + length
    timeouts = [0, 3, 8, 100]
    never = 10**6
    # All requests that may end in the time are given, and those that arrive there.
    answers = sorted((at, never if wait is None else wait) for at, wait in waits if at < end)
    arrived = np.array([at for at, _ in answers], dtype=np.int64) * 1000
    satisfied = arrived + np.array([wait for _, wait in answers], dtype=np.int64) * 1000
    found = what_if_of(arrived, satisfied, timeouts, start * 1000, end * 1000)
    here = [(at, wait) for at, wait in answers if start <= at]
    for number, timeout in enumerate(timeouts):
        spans = [(at, at + min(wait, timeout)) for at, wait in answers]
        # Who ends at a time is not pending any more, and who arrives is.
        pending = [sum(at <= now < ended for at, ended in spans) for now in range(start - 1, end)]
        before, *during = pending
        before = sum(at < start <= ended for at, ended in spans)
        after = sum(at < end <= ended for at, ended in spans if at < ended)
        assert found.requests[number] == len(here)
        assert found.expired[number] == sum(wait > timeout for _, wait in here)
        assert found.waited_us[number] == 1000 * sum(min(wait, timeout) for _, wait in here)
        assert found.rise[number] == max([0, *[now - before for now in during]])
        assert found.change[number] == after - before


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
    times = AnswerTimes.of(answers_of(satisfied).toArrow().to_pylist())
    suggested = timeouts_for(times.quantiles_ms(SUGGESTED_QUANTILES))
    assert suggested[0] in (10, 20)
    assert 2000 <= suggested[-1] <= 20_000
    assert timeouts_for(None)


@pytest.mark.parametrize("timeouts", [[], [5, -1]])
def test_impossible_timeouts_are_refused(satisfied: DataFrame, timeouts: list[int]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"timeouts must be one or more .* got \["):
        what_if(satisfied, timeouts, 1.0)
