"""Simulated clusters, compared with a trace on disk and its replay."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession

from purgatory_spark._analysis.histogram import RELATIVE_ERROR, Histogram
from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.host_driver import EventPart, RequestPart
from purgatory_spark._outcomes.replay import ReplaySettings, replay
from purgatory_spark._rows.schema import OUTCOMES
from purgatory_spark._simulation.cluster_simulation import SimulationPlan, run_simulation, simulate
from purgatory_spark._simulation.host_simulation import (
    QUANTILES,
    SimulatedHost,
    simulate_host,
    trace_parts,
)
from purgatory_spark._traces import workload_blocks as blocks_module
from purgatory_spark._traces.workload import LOW_TIMEOUT, START, Workload, cluster_workload
from purgatory_spark._traces.workload_blocks import HOST_BLOCK, host_blocks, workload_trace
from request_purgatory import InvalidArgumentError
from tests.spark.foreign_sessions import foreign_session
from tests.spark.naive_trace import TraceEvent, TraceRequest, outcome
from tests.spark.small_cluster import CLUSTER, COMMON
from tests.spark.trace_strategies import EVENTS, requests
from tests.support.profiles import examples

START_US = int(START.timestamp()) * 1_000_000
BIN_US = 200_000


@pytest.fixture(scope="module")
def trace(spark: SparkSession) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Make the cluster's trace as `purgatory workload` does, in one task."""
    tables = [table.persist() for table in workload_trace(spark, CLUSTER, partitions=1)]
    yield tables[0], tables[1]
    for table in tables:
        table.unpersist()


def simulated_rows(
    spark: SparkSession, workload: Workload, partitions: int
) -> dict[str, list[Row]]:
    """Simulate a workload and return the rows by kind."""
    found: dict[str, list[Row]] = {"hosts": [], "waits": [], "timeline": [], "tasks": []}
    for row in simulate(spark, workload, bin_us=BIN_US, partitions=partitions).collect():
        found[row["kind"]].append(row[row["kind"]])
    return found


def added_up(rows: list[Row], by: str) -> dict[int, Counter[str]]:
    """Return the sums of all tasks' rows by `by`."""
    sums: dict[int, Counter[str]] = {}
    for row in rows:
        fields = row.asDict()
        sums.setdefault(fields.pop(by), Counter()).update(fields)
    return sums


@pytest.mark.slow
def test_simulation_is_equal_to_the_replay_with_any_number_of_partitions(
    spark: SparkSession, trace: tuple[DataFrame, DataFrame]
) -> None:
    replayed = (
        replay(*trace, ReplaySettings())
        .where("kind = 'hosts'")
        .select("host", "stats.*")
        .select(COMMON)
    )
    outcomes = (
        batch_outcomes(*trace)
        .select("host", "outcome", *OUTCOMES.names[3:5], "waited_ms")
        .toPandas()
    )
    one, three = (simulated_rows(spark, CLUSTER, partitions) for partitions in (1, 3))
    assert (len(one["tasks"]), len(three["tasks"])) == (1, 3)
    assert sum(task["requests"] for task in three["tasks"]) == CLUSTER.requests
    costs = ("make_cpu_seconds", "replay_cpu_seconds")
    same = [
        sorted(
            ({**row.asDict(), **dict.fromkeys(costs)} for row in found["hosts"]),
            key=lambda row: str(row["host"]),
        )
        for found in (one, three)
    ]
    assert same[0] == same[1]
    assert sorted(replayed.collect()) == sorted(
        Row(**{name: row[name] for name in COMMON}) for row in same[0]
    )
    ended = outcomes.groupby("host")["outcome"].value_counts()
    for row in same[0]:
        assert (row["completed"], row["expired"]) == (
            ended[row["host"], "completed"],
            ended[row["host"], "expired"],
        )
        waited = outcomes[outcomes["host"] == row["host"]]["waited_ms"]
        assert row["mean_ms"] == pytest.approx(waited.mean())
        assert row["max_ms"] == waited.max()
        for name, share in QUANTILES.items():
            assert row[name] == pytest.approx(
                np.quantile(waited, share, method="inverted_cdf"), rel=RELATIVE_ERROR
            )

    for found in (one, three):
        histogram = Histogram()
        for bucket, counts in added_up(found["waits"], "bucket").items():
            for kind in ("completed", "expired"):
                histogram.add_counts(np.array([bucket]), np.array([counts[kind]]))
        exact = Histogram()
        exact.add(np.rint(outcomes["waited_ms"].to_numpy() * 1000).astype(np.int64))
        assert histogram.counts.tolist() == exact.counts.tolist()

        timeline = added_up(found["timeline"], "bin")
        for column, kind, moment in (
            ("arrived", None, "arrived_at"),
            ("completed", "completed", "ended_at"),
            ("expired", "expired", "ended_at"),
        ):
            rows = outcomes if kind is None else outcomes[outcomes["outcome"] == kind]
            bins = (
                rows[moment].to_numpy().astype("datetime64[us]").astype(np.int64) - START_US
            ) // BIN_US
            assert Counter(bins.tolist()) == {
                bin_: counts[column] for bin_, counts in timeline.items() if counts[column]
            }


def test_hosts_drawn_one_by_one_do_not_depend_on_the_partitions(
    spark: SparkSession, trace: tuple[DataFrame, DataFrame]
) -> None:
    again = workload_trace(spark, CLUSTER, partitions=3)
    assert [table.rdd.getNumPartitions() for table in (*trace, *again)] == [1, 1, 3, 3]
    made = []
    for one, three, key in zip(trace, again, ("request_id", "key"), strict=True):
        order = [("host", "ascending"), (key, "ascending")]
        made.append(one.toArrow().sort_by(order))
        assert made[-1].equals(three.toArrow().sort_by(order))
    host = [block.requests().to_pylist() for block in host_blocks(CLUSTER, 1)]
    assert [len(block) for block in host] == [HOST_BLOCK, 9_000 - HOST_BLOCK]
    expected = [row for block in host for row in block]
    assert [row for row in made[0].to_pylist() if row["host"] == "host-1"] == expected
    more = replace(CLUSTER, hosts=5, requests=5 * 17_000, rate=5 * 2_500.0)
    longer = [row for block in host_blocks(more, 1) for row in block.requests().to_pylist()]
    assert longer[: len(expected)] == expected


def test_hosts_drawn_one_by_one_differ() -> None:
    first, second = (next(host_blocks(CLUSTER, host)).arrived_us for host in (0, 1))
    assert len(np.intersect1d(first, second)) < HOST_BLOCK / 50
    gaps = np.diff(first)
    assert gaps.mean() == pytest.approx(400, rel=0.05)
    assert gaps.std() == pytest.approx(400, rel=0.05)


@pytest.mark.parametrize(
    "rate", [7_500.0, 9e7], ids=["few simultaneous arrivals", "many simultaneous arrivals"]
)
def test_parts_share_no_instant(rate: float) -> None:
    cluster = replace(CLUSTER, requests=3 * 20_000, rate=rate, median_ms=0.02, p75_ms=0.1)
    arrived: list[int] = []
    occurred: list[int] = []
    last_us = -1
    for found, events in trace_parts(host_blocks(cluster, 2)):
        times = np.concatenate([found.arrived_us, events.occurred_us])
        assert times.min() > last_us
        last_us = int(times.max())
        arrived += found.arrived_us.tolist()
        occurred += events.occurred_us.tolist()
        assert len(found.arrived_us) == len(found.watch_keys) == len(found.timeouts_ms)
    blocks = list(host_blocks(cluster, 2))
    assert arrived == np.concatenate([block.arrived_us for block in blocks]).tolist()
    assert sorted(occurred) == sorted(
        np.concatenate([block.occurred_us for block in blocks]).tolist()
    )


def part_of(found: list[TraceRequest], events: list[TraceEvent]) -> tuple[RequestPart, EventPart]:
    """Convert the model's rows to a part of a trace."""
    return (
        RequestPart(
            np.array([START_US + request.arrived_us for request in found], dtype=np.int64),
            [request.timeout_ms for request in found],
            [request.watch_keys for request in found],
            [request.aggregate for request in found],
            [request.threshold for request in found],
            [request.quantifier for request in found],
        ),
        EventPart(
            np.array([START_US + event.occurred_us for event in events], dtype=np.int64),
            [event.key for event in events],
            [event.amount for event in events],
        ),
    )


@examples(75)
@given(
    found=requests(),
    events=st.lists(EVENTS, max_size=25),
    cuts=st.lists(st.integers(0, 6000), max_size=4).map(sorted),
    chosen=st.sampled_from(
        [
            ReplaySettings(),
            ReplaySettings(tick_ms=7, wheel_size=2, purge_interval=0),
            ReplaySettings("legacy"),
        ]
    ),
)
def test_trace_in_parts_has_the_outcomes_of_the_plain_model(
    found: list[TraceRequest], events: list[TraceEvent], cuts: list[int], chosen: ReplaySettings
) -> None:
    first_us = START_US + min(
        [row.arrived_us for row in found] + [row.occurred_us for row in events]
    )
    whole, pieces = (SimulatedHost(chosen, first_us, 1000) for _ in range(2))
    whole.play(*part_of(found, events))
    whole.finish()
    for begin, end in zip([0, *cuts], [*cuts, 10**9], strict=True):
        some = [request for request in found if begin <= request.arrived_us < end]
        pieces.play(*part_of(some, [event for event in events if begin <= event.occurred_us < end]))
    pieces.finish()
    assert pieces.row() == whole.row()
    assert pieces.counts_by_outcome.timeline.rows() == whole.counts_by_outcome.timeline.rows()
    for kind, histogram in (
        ("completed", pieces.counts_by_outcome.completed),
        ("expired", pieces.counts_by_outcome.expired),
    ):
        outcomes = [(request, outcome(request, events)) for request in found]
        waits = [
            ended_us - request.arrived_us for request, (how, ended_us) in outcomes if how == kind
        ]
        exact = Histogram()
        exact.add(np.array(waits, dtype=np.int64))
        assert histogram.counts.tolist() == exact.counts.tolist()
        bins = Counter(ended_us // 1000 for _, (how, ended_us) in outcomes if how == kind)
        assert bins == {
            row["bin"]: row[kind] for row in pieces.counts_by_outcome.timeline.rows() if row[kind]
        }


def test_memory_does_not_grow_with_the_length_of_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "HOST_BLOCK", 512)
    peaks = []
    for blocks in (3, 3, 30):
        host = replace(CLUSTER, hosts=1, requests=blocks * 512, rate=2_500.0)
        tracemalloc.start()
        row, counts = simulate_host(host, 0, ReplaySettings(), BIN_US)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert row["requests"] == counts.waits().total == blocks * 512
    # The first one also includes objects that are created once in a process.
    assert peaks[2] < 1.4 * peaks[1]


def test_watched_keys_and_occupied_buckets_are_counted() -> None:
    row, _ = simulate_host(
        replace(CLUSTER, hosts=1, requests=1, keys=10_000), 0, ReplaySettings(wheel_size=20), BIN_US
    )
    assert row["peak_watched_keys"] == 3
    assert [level["peak_used"] for level in row["wheel"]] == [0, 1]
    row, _ = simulate_host(
        replace(CLUSTER, hosts=1, requests=5_000, rate=2_500.0), 0, ReplaySettings(), BIN_US
    )
    assert (
        row["peak_pending"] < row["peak_watched_keys"] <= row["peak_pending"] + CLUSTER.keys + 1_000
    )


@pytest.mark.parametrize("name", ["hosts", "requests_per_host", "rate_per_host"])
@pytest.mark.parametrize("value", [0, -1])
def test_impossible_cluster_is_refused(name: str, value: int) -> None:
    chosen = {"hosts": 2, "requests_per_host": 3, "rate_per_host": 1.0} | {name: value}
    with pytest.raises(InvalidArgumentError, match=f"{name} must be .*got {value}"):
        cluster_workload(LOW_TIMEOUT, **chosen)  # type: ignore[arg-type]


def test_expected_waits_match_the_drawn_ones() -> None:
    for timeout_ms in (20, 100, 1000):
        workload = replace(CLUSTER, hosts=1, requests=20_000, rate=2_500.0, timeout_ms=timeout_ms)
        service_ms = np.concatenate([block.service_us for block in host_blocks(workload, 0)]) / 1000
        assert np.minimum(service_ms, timeout_ms).mean() == pytest.approx(
            workload.expected_wait_ms, rel=0.05
        )
    assert replace(CLUSTER, timeout_ms=0).expected_wait_ms == 0


def test_legacy_design_is_simulated(spark: SparkSession, tmp_path: Path) -> None:
    plan = SimulationPlan(
        replace(CLUSTER, hosts=2, requests=400), ReplaySettings(design="legacy"), partitions=1
    )
    summary = run_simulation(spark, plan, plan.measure(), tmp_path)
    assert summary["ends"]["requests"] == 400
    assert summary["purgatory"]["wheel"] == []
    assert summary["purgatory"]["peak_queued"] >= summary["purgatory"]["peak_pending"]


def test_tables_are_written_to_this_machines_files(spark: SparkSession, tmp_path: Path) -> None:
    plan = SimulationPlan(replace(CLUSTER, hosts=2, requests=400), partitions=1)
    with foreign_session(spark, session__timeZone="America/New_York") as session:
        session.conf.set("fs.defaultFS", "hdfs://127.0.0.1:1")
        before = dict(session.conf.getAll)
        run_simulation(session, plan, plan.measure(), tmp_path)
        assert dict(session.conf.getAll) == before
        session.conf.unset("fs.defaultFS")
    bins = pq.read_table(tmp_path / "timeline").column("from_at").to_pylist()
    assert min(bins) == START
