"""The commands `purgatory workload` and `purgatory simulate`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from purgatory_command import main
from purgatory_command_line import output
from purgatory_command_line.exit_codes import ExitCode
from purgatory_spark._cli import session
from purgatory_spark._output_folder import read_json
from purgatory_spark._simulation.cluster_simulation import HOSTS
from purgatory_spark._simulation.extrapolation import DAY_S
from purgatory_spark._traces.workload import START
from tests.spark.small_cluster import COMMON


def run_command(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *arguments: object,
) -> str:
    """Run a command in the tests' session and return its output."""
    monkeypatch.setattr(session, "open_session", lambda **_: nullcontext(spark))
    monkeypatch.setattr(output, "_PIPE_WIDTH", 200)
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert code == ExitCode.OK, printed.err
    return printed.out


@pytest.mark.slow
def test_command_gives_the_hosts_of_workload_and_replay(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
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
    run_command(spark, monkeypatch, capsys, "workload", *common, "--rate", 2_000, "--out", trace)
    printed = run_command(
        spark, monkeypatch, capsys, "replay", trace, "--tick-ms", 5, "--out", replayed
    )
    assert "1,400 requests in" in printed
    assert "requests/s on a core" in printed
    options = ("--rate-per-host", 1_000, "--tick-ms", 5, "--target-per-day", 1e9, "--partitions", 2)
    printed = run_command(
        spark, monkeypatch, capsys, "simulate", *common, *options, "--out", simulated
    )
    for expected in (
        "1,400 on 2 hosts",
        "p99.9",
        "a busy core",
        "largest worker",
        "to 1,000,000,000 requests a day",
        "Assumptions:",
    ):
        assert expected in printed
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
    # The estimates follow from the measurements in the folder.
    found = {estimate["name"]: estimate["value"] for estimate in summary["extrapolation"]}
    rate = 1e9 / DAY_S
    assert found["busy cores of the purgatories"] == pytest.approx(
        rate * summary["cost"]["cpu_seconds_per_million"] / 1e6
    )
    assert found["pending requests"] == pytest.approx(rate * summary["waits"]["mean_ms"] / 1000)
    worker_bytes = summary["cost"]["peak_worker_bytes"]
    assert found["memory of all workers"] == 4 * found["executors"] * worker_bytes


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
            "rate_per_host must be a positive number of requests per second, got 0.0",
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
def test_command_names_the_refused_option(
    arguments: tuple[str, ...],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(session, "open_session", lambda **_: pytest.fail("Spark was started"))
    out = tmp_path / "out"
    code = main(["simulate", "--hosts", "2", *arguments, "--out", str(out)])
    assert code == ExitCode.BAD_INPUT
    assert expected in capsys.readouterr().err
    assert not out.exists()


def test_number_of_requests_is_given_in_total_or_by_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "workload",
        "--requests",
        "10",
        "--requests-per-host",
        "5",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(arguments) == ExitCode.BAD_INPUT
    assert "requests_per_host must be given without --requests" in capsys.readouterr().err
