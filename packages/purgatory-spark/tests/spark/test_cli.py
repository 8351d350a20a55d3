"""The commands on traces, from one output to the next."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from purgatory_command_line.exit_codes import ExitCode
from purgatory_spark._output_folder import read_json
from tests.spark.command import Purgatory, command_runner
from tests.spark.naive_trace import TraceEvent, TraceRequest
from tests.spark.small_analyses import write_trace

SPANS = """\
TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration
t1,parent,root,front,Get,1000000000,1500000000,500000
t1,child,parent,back,Read,1100000000,1400000000,300000
t2,slow,root,front,Get,2000000000,9000000000,7000000
t2,late,slow,back,Read,2100000000,8900000000,6800000
t2,late,slow,back,Read,2100000000,8900000000,6800000
t3,odd,root,front,Get,5000000000,4000000000,1
"""


@pytest.fixture
def purgatory(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Purgatory:
    """Return a function that runs the command in this process, on the tests' session."""

    @contextmanager
    def session(*, small: bool = False) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("purgatory_spark._cli.session.open_session", session)
    return command_runner(capsys)


@pytest.mark.slow
def test_each_step_takes_what_the_one_before_made(purgatory: Purgatory, tmp_path: Path) -> None:
    trace, wheel, legacy, analysis = (
        tmp_path / name for name in ("trace", "wheel", "legacy", "analysis")
    )
    ran = purgatory(
        "workload", "--case", "high", "--requests", "2000", "--hosts", "2", "--out", trace
    )
    assert (ran.code, f"next: purgatory replay {trace}" in ran.out) == (0, True)
    ran = purgatory("replay", trace, "--tick-ms", "5", "--out", wheel)
    assert (ran.code, f"next: purgatory analyze {trace} --replay {wheel}" in ran.out) == (0, True)
    assert purgatory("replay", trace, "--design", "legacy", "--out", legacy).code == ExitCode.OK
    ran = purgatory(
        "analyze",
        trace,
        "--replay",
        wheel,
        "--replay",
        legacy,
        "--timeouts",
        "100,200",
        "--out",
        analysis,
    )
    assert (ran.code, f"next: purgatory report {analysis}" in ran.out) == (0, True)
    assert re.search(r"workload high +2,000 +\d[\d,]* +\d\d\.\d %", ran.out)
    report = tmp_path / "report.html"
    assert purgatory("report", analysis, "--out", report).code == ExitCode.OK
    assert "workload high" in report.read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "analysis",
        "legacy",
        "report.html",
        "trace",
        "wheel",
    ]


@pytest.mark.slow
def test_results_are_json_on_request(
    purgatory: Purgatory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, wheel, analysis = (tmp_path / name for name in ("trace", "wheel", "analysis"))
    ran = purgatory("workload", "--requests", "50", "--hosts", "2", "--out", trace, "--json")
    made = json.loads(ran.out)
    assert (made["path"], made["name"]) == (str(trace), "workload low")
    assert made["rows"]["requests out"] == 50
    assert "make workload low" in ran.err
    ran = purgatory("replay", trace, "--out", wheel, "--json")
    assert json.loads(ran.out)["settings"]["design"] == "wheel"
    ran = purgatory("analyze", trace, "--replay", wheel, "--out", analysis, "--json")
    made = json.loads(ran.out)
    assert (made["path"], made["differing"]) == (str(analysis), 0)
    assert made["summary"]["requests"] == 50
    assert made["agreement"][0]["differing"] == 0
    report = tmp_path / "report.html"
    monkeypatch.delattr("purgatory_spark._cli.session.open_session")  # It needs no Spark.
    ran = purgatory("report", analysis, "--out", report, "--json")
    made = json.loads(ran.out)
    assert made["report"] == str(report)
    assert made["analyses"][0]["recommended_timeout_ms"] is None
    assert "at least 300 are needed" in made["analyses"][0]["findings"][0]


def test_run_imports_replays_and_reports(purgatory: Purgatory, tmp_path: Path) -> None:
    source = tmp_path / "spans"
    source.mkdir()
    (source / "one.csv.gz").write_bytes(gzip.compress(SPANS.encode()))
    out = tmp_path / "run"
    ran = purgatory(
        "run", "--trace", source, "--mark", "1970-01-01T00:00:01.5=middle", "--out", out
    )
    assert ran.code == ExitCode.OK, ran.err
    assert "6 spans in, 4 spans kept, 2 rejected, 2 requests out, 2 events out" in ran.out
    assert "rejected 1: end before start" in ran.out
    assert "rejected 1: repeated SpanID" in ran.out
    assert "(0.0 % of 1 requests before, 100.0 % of 1 requests after)" in ran.out
    assert "No timeout is recommended: " in ran.out
    assert f"report: {out}/report.html" in ran.out
    assert (out / "report.html").stat().st_size > 50_000
    assert read_json(out / "traces" / "spans" / "trace.json")["rejected"] == {
        "end before start": 1,
        "repeated SpanID": 1,
    }


@pytest.mark.slow
def test_run_replays_the_designs_that_are_named(purgatory: Purgatory, tmp_path: Path) -> None:
    trace, out = tmp_path / "trace", tmp_path / "run"
    write_trace(trace, [TraceRequest("a", 0, 3, ["a"], "count", 1.0, "all")], [])
    ran = purgatory("run", "--trace", trace, "--design", "wheel", "--design", "wheel", "--out", out)
    assert ran.code == ExitCode.OK, ran.err
    assert [path.name for path in (out / "replays" / "trace").iterdir()] == ["wheel"]


@pytest.mark.slow
def test_differing_outcomes_have_their_own_exit_code(purgatory: Purgatory, tmp_path: Path) -> None:
    one, other, replayed = tmp_path / "one", tmp_path / "other", tmp_path / "replayed"
    waiting = [TraceRequest(name, 0, 3, [name], "count", 1.0, "all") for name in ("a", "b", "c")]
    write_trace(one, waiting, [TraceEvent("a", 1000, 1.0)])
    write_trace(other, waiting, [TraceEvent("b", 1000, 1.0)])
    assert purgatory("replay", other, "--out", replayed).code == ExitCode.OK
    ran = purgatory("analyze", one, "--replay", replayed, "--out", tmp_path / "analysis")
    assert ran.code == ExitCode.OUTCOMES_DIFFER
    assert "2 requests of the replays ended in another way than computed" in ran.out


def test_bad_input_leaves_nothing(purgatory: Purgatory, tmp_path: Path) -> None:
    junk = tmp_path / "junk.csv"
    junk.write_bytes(b"\x00\xff\xfe\x01 not text")
    table = tmp_path / "table.csv"
    table.write_text("when,what\n1,2\n")
    out = tmp_path / "out"
    for arguments, expected in [
        (("import", tmp_path / "nowhere", "--out", out), "nowhere: no such file or folder"),
        (("import", junk, "--out", out), "junk.csv: can't be read as CSV text"),
        (("import", table, "--out", out), "table.csv: no known format has the columns when, what"),
        (
            ("import", table, "--map", "arrived_at=when", "--out", out),
            "the mapping lacks ended_at=COLUMN, service_ms=COLUMN or service_s=COLUMN",
        ),
        (
            ("import", table, "--map", "arrived_at=x", "--map", "ended_at=y", "--out", out),
            "table.csv: missing columns: x, y",
        ),
        (("import", table, "--mark", "yesterday", "--out", out), "mark must be TIME or TIME=LABEL"),
        (("import", table, "--timeout-ms", "-1", "--out", out), "timeout_ms must be from 0 to"),
        (
            ("workload", "--rate", "0", "--out", out),
            "rate must be a positive number of requests per second, got 0.0",
        ),
        (("replay", tmp_path, "--out", out), "is not a trace folder (no trace.json in it)"),
        (("report", tmp_path, "--out", out), "is not an analysis folder"),
    ]:
        ran = purgatory(*arguments)
        assert ran.code == ExitCode.BAD_INPUT, ran.err
        assert expected in ran.err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["junk.csv", "table.csv"]


def test_existing_output_is_kept_unless_forced(purgatory: Purgatory, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert purgatory("workload", "--requests", "10", "--out", out).code == ExitCode.OK
    ran = purgatory("workload", "--requests", "20", "--out", out)
    assert ran.code == ExitCode.BAD_INPUT
    assert "exists already: choose another --out, or replace it with --force" in ran.err
    assert read_json(out / "trace.json")["rows"]["requests out"] == 10
    assert purgatory("workload", "--requests", "20", "--force", "--out", out).code == ExitCode.OK
    assert read_json(out / "trace.json")["rows"]["requests out"] == 20


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a process of its own."""
    program = Path(sys.executable).with_name("purgatory")
    return subprocess.run(
        [str(program), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_missing_java_is_a_missing_dependency(tmp_path: Path) -> None:
    ran = command("run", "--out", str(tmp_path / "out"), JAVA_HOME=str(tmp_path))
    assert ran.returncode == ExitCode.MISSING_DEPENDENCY
    assert "Spark needs Java 17 or newer" in ran.stderr
    assert "Install it with: " in ran.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.jvm
def test_installed_command_does_the_whole_run(tmp_path: Path) -> None:
    ran = command("run", "--requests", "2000", "--workload", "low", "--out", str(tmp_path / "out"))
    assert ran.returncode == 0, ran.stderr
    assert "✓ replay low, wheel and legacy, and analyze it" in ran.stdout
    assert re.search(r"workload low +legacy .* 0 *$", ran.stdout, re.MULTILINE)
    assert (tmp_path / "out" / "report.html").exists()
    assert "Traceback" not in ran.stderr


def test_import_without_a_request_is_bad_input(purgatory: Purgatory, tmp_path: Path) -> None:
    calls, out = tmp_path / "calls.csv", tmp_path / "calls"
    calls.write_text("start,end\n1700000000000,1700000000100\n2,3\n")
    columns = ("--map", "arrived_at=start", "--map", "ended_at=end")
    ran = purgatory("import", calls, *columns, "--out", out)
    assert ran.code == ExitCode.BAD_INPUT
    assert "rejected 2: start is a number without a unit: give it with --time-unit" in ran.out
    assert "next:" not in ran.out
    assert f"{calls}: no request is left; {out / 'rejects'} has the rows and reasons" in ran.err
    assert list((out / "rejects").glob("*.parquet"))
    ran = purgatory("import", calls, *columns, "--time-unit", "ms", "--out", tmp_path / "good")
    assert (ran.code, "next: purgatory replay" in ran.out) == (ExitCode.OK, True)
