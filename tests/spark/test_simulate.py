"""Simulated clusters.

As the trace on disk and its replay, in bounded memory, whatever the partitions.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from rich.console import Console

from request_purgatory import InvalidArgumentError
from request_purgatory.cli import main
from request_purgatory.pipeline.analysis.histogram import RELATIVE_ERROR, Histogram
from request_purgatory.pipeline.outcomes.batch import batch_outcomes
from request_purgatory.pipeline.outcomes.replay import ReplaySettings, replay
from request_purgatory.pipeline.outcomes.replay_driver import EventPart, RequestPart
from request_purgatory.pipeline.simulation.cluster_simulation import (
    HOSTS,
    SimulationPlan,
    run_simulation,
    simulate,
)
from request_purgatory.pipeline.simulation.extrapolation import (
    DAY_S,
    Figure,
    Measured,
    Sizes,
    Target,
    extrapolate,
    measure_sizes,
    require_fit,
)
from request_purgatory.pipeline.simulation.host_simulation import (
    QUANTILES,
    SimulatedHost,
    parts,
    simulate_host,
)
from request_purgatory.pipeline.traces import workload as workload_module
from request_purgatory.pipeline.traces.output_folder import read_json
from request_purgatory.pipeline.traces.schema import OUTCOMES
from request_purgatory.pipeline.traces.workload import (
    HOST_BLOCK,
    LOW_TIMEOUT,
    START,
    Workload,
    cluster_workload,
    host_blocks,
    workload_trace,
)
from tests.model.naive_trace import TraceEvent, TraceRequest, outcome
from tests.spark.trace_strategies import EVENTS, requests
from tests.support.profiles import examples

START_US = int(START.timestamp()) * 1_000_000
BIN_US = 200_000

#: Three hosts of two blocks each.
CLUSTER = replace(
    LOW_TIMEOUT,
    name="cluster",
    hosts=3,
    requests=3 * 9_000,
    rate=7_500.0,
    timeout_ms=100,
    keys=50,
    seed=7,
    host_by_host=True,
)
#: What a simulation and a replay both tell of a host.
COMMON = [
    "host",
    "design",
    "requests",
    "events",
    "completed",
    "expired",
    "peak_pending",
    "peak_queued",
    "purges",
    "tries",
]
COMMON += ["purged_entries", "callbacks", "callback_errors", "wheel"]


@pytest.fixture(scope="module")
def trace(spark: SparkSession) -> Iterator[tuple[DataFrame, DataFrame]]:
    """The cluster's trace, as `purgatory workload` makes it, by one task."""
    tables = [table.persist() for table in workload_trace(spark, CLUSTER, partitions=1)]
    yield tables[0], tables[1]
    for table in tables:
        table.unpersist()


def simulated_rows(
    spark: SparkSession, workload: Workload, partitions: int
) -> dict[str, list[Row]]:
    """All rows that the simulation gives, by kind."""
    found: dict[str, list[Row]] = {"hosts": [], "waits": [], "timeline": [], "tasks": []}
    for row in simulate(spark, workload, bin_us=BIN_US, partitions=partitions).collect():
        found[row["kind"]].append(row[row["kind"]])
    return found


def added_up(rows: list[Row], by: str) -> dict[int, Counter[str]]:
    """Rows of several tasks as those of one."""
    sums: dict[int, Counter[str]] = {}
    for row in rows:
        fields = row.asDict()
        sums.setdefault(fields.pop(by), Counter()).update(fields)
    return sums


def test_simulation_is_the_replay_of_the_workload_whatever_the_partitions(
    spark: SparkSession, trace: tuple[DataFrame, DataFrame]
) -> None:
    """Host by host what the purgatory did, and request by request how long each waited and when it ended."""
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
        assert [column.tolist() for column in histogram.counts()] == [
            column.tolist() for column in exact.counts()
        ]

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


def test_hosts_drawn_apart_are_the_same_whatever_the_partitioning(
    spark: SparkSession, trace: tuple[DataFrame, DataFrame]
) -> None:
    """Nor does a host depend on how many others there are, or on how long the workload is."""
    again = workload_trace(spark, CLUSTER, partitions=3)
    assert [table.rdd.getNumPartitions() for table in (*trace, *again)] == [1, 1, 3, 3]
    made = []
    for one, three, key in zip(trace, again, ("request_id", "key"), strict=True):
        order = [("host", "ascending"), (key, "ascending")]
        made.append(one.toArrow().sort_by(order))
        assert made[-1].equals(three.toArrow().sort_by(order))
    host = [block.requests().to_pylist() for block in host_blocks(CLUSTER, 1)]
    assert [len(block) for block in host] == [HOST_BLOCK, 9_000 - HOST_BLOCK]
    told = [row for block in host for row in block]
    assert [row for row in made[0].to_pylist() if row["host"] == "host-1"] == told
    more = replace(CLUSTER, hosts=5, requests=5 * 17_000, rate=5 * 2_500.0)
    longer = [row for block in host_blocks(more, 1) for row in block.requests().to_pylist()]
    assert longer[: len(told)] == told


def test_hosts_drawn_apart_are_not_alike() -> None:
    """Nor like the workload whose hosts are drawn together."""
    first, second = (next(host_blocks(CLUSTER, host)).arrived_us for host in (0, 1))
    assert len(np.intersect1d(first, second)) < HOST_BLOCK / 50
    gaps = np.diff(first)
    assert gaps.mean() == pytest.approx(400, rel=0.05)
    assert gaps.std() == pytest.approx(400, rel=0.05)


@pytest.mark.parametrize(
    "rate", [7_500.0, 9e7], ids=["few arrivals at once", "many arrivals at once"]
)
def test_part_ends_where_the_next_one_begins(rate: float) -> None:
    """No instant is in two parts, and nothing is left out, twice or early."""
    cluster = replace(CLUSTER, requests=3 * 20_000, rate=rate, median_ms=0.02, p75_ms=0.1)
    arrived: list[int] = []
    occurred: list[int] = []
    last_us = -1
    for found, events in parts(host_blocks(cluster, 2)):
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


def columns(found: list[TraceRequest], events: list[TraceEvent]) -> tuple[RequestPart, EventPart]:
    """Rows of the model as a part of a trace."""
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


@examples(150)
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
def test_trace_in_parts_ends_as_the_plain_model_does(
    found: list[TraceRequest], events: list[TraceEvent], cuts: list[int], chosen: ReplaySettings
) -> None:
    """Wherever it is cut.

    The purgatory does the same, and every request is counted with its wait.
    """
    first_us = START_US + min(
        [row.arrived_us for row in found] + [row.occurred_us for row in events]
    )
    whole, pieces = (SimulatedHost(chosen, first_us, 1000) for _ in range(2))
    whole.play(*columns(found, events))
    whole.finish()
    for begin, end in zip([0, *cuts], [*cuts, 10**9], strict=True):
        some = [request for request in found if begin <= request.arrived_us < end]
        pieces.play(*columns(some, [event for event in events if begin <= event.occurred_us < end]))
    pieces.finish()
    assert pieces.row() == whole.row()
    assert pieces.ends.timeline.rows() == whole.ends.timeline.rows()
    for kind, histogram in (("completed", pieces.ends.completed), ("expired", pieces.ends.expired)):
        told = [(request, outcome(request, events)) for request in found]
        waits = [ended_us - request.arrived_us for request, (how, ended_us) in told if how == kind]
        exact = Histogram()
        exact.add(np.array(waits, dtype=np.int64))
        assert [column.tolist() for column in histogram.counts()] == [
            column.tolist() for column in exact.counts()
        ]
        bins = Counter(ended_us // 1000 for _, (how, ended_us) in told if how == kind)
        assert bins == {row["bin"]: row[kind] for row in pieces.ends.timeline.rows() if row[kind]}


def test_memory_is_for_what_is_pending_not_for_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host ten times as long takes as much."""
    monkeypatch.setattr(workload_module, "HOST_BLOCK", 512)
    peaks = []
    for blocks in (3, 3, 30):
        host = replace(CLUSTER, hosts=1, requests=blocks * 512, rate=2_500.0)
        tracemalloc.start()
        row, ends = simulate_host(host, 0, ReplaySettings(), BIN_US)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert row["requests"] == ends.waits().total == blocks * 512
    # The first one also pays for what is made once in a process.
    assert peaks[2] < 1.4 * peaks[1]


def test_watched_keys_and_buckets_are_those_in_use() -> None:
    """One request.

    Its own key and two of a large pool, and a bucket of the wheel for each of its levels at most.
    """
    row, _ = simulate_host(
        replace(CLUSTER, hosts=1, requests=1, keys=10_000), 0, ReplaySettings(), BIN_US
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
def test_cluster_that_can_not_be_is_refused(name: str, value: int) -> None:
    """By the name that it was given."""
    chosen = {"hosts": 2, "requests_per_host": 3, "rate_per_host": 1.0} | {name: value}
    with pytest.raises(InvalidArgumentError, match=f"{name} must be .*got {value}"):
        cluster_workload(LOW_TIMEOUT, **chosen)  # type: ignore[arg-type]


def test_expected_waits_are_those_of_the_simulation() -> None:
    """By the distribution: what the memory for pending requests is reckoned from."""
    for timeout_ms in (20, 100, 1000):
        workload = replace(CLUSTER, hosts=1, requests=20_000, rate=2_500.0, timeout_ms=timeout_ms)
        service_ms = np.concatenate([block.service_us for block in host_blocks(workload, 0)]) / 1000
        assert np.minimum(service_ms, timeout_ms).mean() == pytest.approx(
            workload.expected_wait_ms, rel=0.05
        )
    assert replace(CLUSTER, timeout_ms=0).expected_wait_ms == 0


# -- extrapolation

SIZES = Sizes(
    pending_request=1000.0,
    coming_event=80.0,
    packed_request=40.0,
    packed_event=10.0,
    packed_key=12.0,
    packed_id=10.0,
)


def figures(target: Target, **measured: Any) -> dict[str, Figure]:
    """Figures from round measurements, of which some may be chosen."""
    values = {
        "requests": 2_000_000,
        "cpu_seconds": 20.0,
        "mean_wait_ms": 50.0,
        "worker_bytes": 200 * 2**20,
        "sizes": SIZES,
    }
    found = extrapolate(
        CLUSTER,
        ReplaySettings(),
        Measured(**values | measured),
        target,
        delay_ms=10_000,
        remember_ms=60_000,
    )
    return {figure.name: figure for figure in found}


def test_figures_are_the_products_that_they_say() -> None:
    """A million requests a second at 10 s of CPU a million keep ten cores busy."""
    found = {name: figure.value for name, figure in figures(Target(1e6 * DAY_S, 0.5, 8)).items()}
    assert found["requests a second"] == pytest.approx(1e6)
    assert found["hosts"] == pytest.approx(400)
    assert found["busy cores"] == pytest.approx(10)
    assert found["cores"] == 20
    assert found["executors"] == 3
    assert found["memory of an executor's workers"] == 8 * 200 * 2**20
    assert found["memory of all workers"] == 24 * 200 * 2**20
    assert found["pending requests"] == pytest.approx(50_000)
    assert found["memory of pending requests"] == pytest.approx(50e6)
    assert found["memory of ended ones not purged yet"] == pytest.approx(400 * 1000 * 1000)
    assert found["shuffle"] == pytest.approx(50e6)
    assert found["stream state: rows before the watermark"] == pytest.approx(500e6)
    assert found["stream state: waiting requests"] == pytest.approx(50_000 * 40 + 50_000 * 10)
    assert found["stream state: keys remembered"] == pytest.approx(60e6 * 12)
    assert found["stream state"] == pytest.approx(500e6 + 2.5e6 + 720e6)


def test_figures_follow_from_what_was_measured() -> None:
    """Twice the CPU time is twice the cores; twice the wait, twice the pending."""
    once, twice = figures(Target()), figures(Target(), cpu_seconds=40.0, mean_wait_ms=100.0)
    assert twice["busy cores"].value == pytest.approx(2 * once["busy cores"].value)
    assert twice["memory of pending requests"].value == pytest.approx(
        2 * once["memory of pending requests"].value
    )
    assert twice["shuffle"].value == once["shuffle"].value


def test_sizes_are_measured_on_the_workload() -> None:
    """More keys make pending requests and rows larger, events not."""
    few, many = (
        measure_sizes(replace(CLUSTER, shared_keys=keys), ReplaySettings()) for keys in (0, 4)
    )
    assert 4 * 50 < many.pending_request - few.pending_request < 4 * 500
    assert 200 < few.pending_request < 3000
    assert few.packed_request < many.packed_request
    assert few.packed_event == many.packed_event
    assert 8 < few.packed_key < 40


def test_host_that_does_not_fit_is_refused_with_what_fits() -> None:
    """And what is said to fit does."""
    huge = replace(CLUSTER, requests=3 * 10**9, rate=3 * 5e7)
    with pytest.raises(
        InvalidArgumentError,
        match=r"rate_per_host must be at most [\d,]+ for .*pending requests.*got 5",
    ) as told:
        require_fit(huge, ReplaySettings(), SIZES, 512)
    fits = int(told.value.requirement.removeprefix("at most ").split()[0].replace(",", ""))
    assert 1000 < fits < 5e7
    require_fit(replace(huge, rate=3.0 * fits), ReplaySettings(), SIZES, 512)
    with pytest.raises(InvalidArgumentError, match="rate_per_host"):
        require_fit(replace(huge, rate=3.06 * fits), ReplaySettings(), SIZES, 512)
    with pytest.raises(InvalidArgumentError, match=r"max_worker_mb must be more than .*got 1"):
        require_fit(huge, ReplaySettings(), SIZES, 1)
    # A hundred million requests on a host at a rate that is not too high: none of them stays.
    require_fit(replace(CLUSTER, requests=3 * 10**8), ReplaySettings(), SIZES, 512)


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("per_day", 0.0, "target_per_day"),
        ("per_day", float("inf"), "target_per_day"),
        ("utilization", 0.0, "utilization"),
        ("utilization", 1.5, "utilization"),
        ("executor_cores", 0, "executor_cores"),
    ],
)
def test_target_that_can_not_be_is_refused(field: str, value: float, name: str) -> None:
    """By its name, with the value."""
    with pytest.raises(InvalidArgumentError, match=f"{name} must be .*got {value}"):
        Target(**{field: value})  # type: ignore[arg-type]


def test_plan_that_can_not_be_is_refused() -> None:
    """Hosts drawn together can't be made one by one."""
    with pytest.raises(
        InvalidArgumentError, match="workload must be one that is drawn host_by_host"
    ):
        SimulationPlan(LOW_TIMEOUT)
    with pytest.raises(InvalidArgumentError, match="partitions must be at least 1, got 0"):
        SimulationPlan(CLUSTER, partitions=0)
    with pytest.raises(
        InvalidArgumentError, match=r"requests must be a multiple of the hosts \(3\), got 10"
    ):
        replace(CLUSTER, requests=10)


# -- the command


def called(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *arguments: object,
) -> str:
    """What the command said, on the tests' session."""
    from contextlib import contextmanager

    @contextmanager
    def session() -> Iterator[tuple[SparkSession, Console]]:
        yield spark, Console(highlight=False, width=200)

    monkeypatch.setattr(main, "open_session", session)
    code = main.main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


def test_command_simulates_what_workload_and_replay_do(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """And tells what it took, and what the target would."""
    trace, replayed, simulated = (tmp_path / name for name in ("trace", "replayed", "simulated"))
    common = (
        "--case",
        "high",
        "--hosts",
        2,
        "--requests-per-host",
        700,
        "--seed",
        3,
        "--keys",
        20,
        "--timeout-ms",
        300,
    )
    called(spark, monkeypatch, capsys, "workload", *common, "--rate", 2_000, "--out", trace)
    said = called(spark, monkeypatch, capsys, "replay", trace, "--tick-ms", 5, "--out", replayed)
    assert "1,400 requests in" in said
    assert "requests/s on a core" in said
    said = called(
        spark, monkeypatch, capsys, "simulate", *common, "--rate-per-host", 1_000, "--tick-ms", 5, "--target-per-day", 1e9,
        "--partitions", 2, "--out", simulated,
    )  # fmt: skip
    for expected in (
        "1,400 on 2 hosts",
        "p99.9",
        "a busy core",
        "largest worker",
        "to 1,000,000,000 requests a day",
        "assumed:",
    ):
        assert expected in said
    tables = {
        name: pq.read_table(simulated / name) for name in ("hosts", "waits", "timeline", "tasks")
    }
    assert tables["hosts"].column_names == HOSTS.names
    rows = [
        sorted(table.select(COMMON).to_pylist(), key=lambda row: row["host"])
        for table in (tables["hosts"], pq.read_table(replayed / "hosts"))
    ]
    assert rows[0] == rows[1]
    summary = read_json(simulated / "summary.json")
    assert summary["parameters"]["workload"]["seed"] == 3
    assert summary["ends"]["completed"] + summary["ends"]["expired"] == 1_400
    assert summary["ends"]["callback_errors"] == 0
    assert summary["cost"]["tasks"] == 2
    assert summary["cost"]["peak_worker_bytes"] > 20 * 2**20
    waits = tables["waits"].to_pylist()
    for kind in ("completed", "expired"):
        assert sum(row[kind] for row in waits) == summary["ends"][kind]
    assert all(row["from_ms"] < row["to_ms"] for row in waits)
    timeline = tables["timeline"].sort_by("from_at").to_pylist()
    assert timeline[-1]["pending"] == 0
    assert min(row["pending"] for row in timeline) >= 0
    assert timeline[0]["from_at"].year == START.year
    assert tables["tasks"].num_rows == 2
    # Every figure again from what the folder says was measured.
    figures = {figure["name"]: figure["value"] for figure in summary["extrapolation"]}
    rate = 1e9 / DAY_S
    assert figures["busy cores"] == pytest.approx(
        rate * summary["cost"]["cpu_seconds_per_million"] / 1e6
    )
    assert figures["pending requests"] == pytest.approx(rate * summary["waits"]["mean_ms"] / 1000)
    assert figures["memory of an executor's workers"] == 4 * summary["cost"]["peak_worker_bytes"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--utilization", "2"), "utilization must be above 0 and up to 1, got 2.0"),
        (
            ("--target-per-day", "-1"),
            "target_per_day must be a positive number of requests a day, got -1.0",
        ),
        (
            ("--rate-per-host", "0"),
            "rate_per_host must be a positive number of requests a second, got 0.0",
        ),
        (
            ("--rate-per-host", "1e9", "--requests-per-host", "1000000000"),
            "rate_per_host must be at most",
        ),
        (("--timeout-ms", "-1"), "timeout_ms must be at least 0, got -1"),
        (("--median-ms", "70"), "median_ms must be positive and below p75_ms (60.0), got 70.0"),
        (("--tick-ms", "0"), "tick_ms must be at least 1"),
    ],
)
def test_command_refuses_by_name_before_spark_starts(
    arguments: tuple[str, ...],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And leaves nothing."""
    monkeypatch.setattr(main, "open_session", lambda: pytest.fail("Spark was started"))
    out = tmp_path / "out"
    assert main.main(["simulate", "--hosts", "2", *arguments, "--out", str(out)]) == main.BAD_INPUT
    assert expected in capsys.readouterr().err
    assert not out.exists()


def test_workload_takes_its_number_of_requests_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In all, or by host."""
    arguments = [
        "workload",
        "--requests",
        "10",
        "--requests-per-host",
        "5",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main.main(arguments) == main.BAD_INPUT
    assert "requests_per_host must be given without requests" in capsys.readouterr().err


def test_legacy_design_is_simulated_too(spark: SparkSession, tmp_path: Path) -> None:
    """It has no wheel."""
    plan = SimulationPlan(
        replace(CLUSTER, hosts=2, requests=400), ReplaySettings(design="legacy"), partitions=1
    )
    summary = run_simulation(spark, plan, plan.measure(), tmp_path)
    assert summary["ends"]["requests"] == 400
    assert summary["purgatory"]["wheel"] == []
    assert summary["purgatory"]["peak_queued"] >= summary["purgatory"]["peak_pending"]
