"""The command, from one output to the next, and what it says when it can't."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from request_purgatory.cli import main
from request_purgatory.pipeline.traces.output_folder import read_json
from tests.model.naive_trace import TraceEvent, TraceRequest
from tests.spark.analysed import write_trace

COMMANDS = (
    "run",
    "workload",
    "import",
    "replay",
    "analyze",
    "report",
    "simulate",
    "archive",
    "bench",
)

SPANS = """\
TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration
t1,parent,root,front,Get,1000000000,1500000000,500000
t1,child,parent,back,Read,1100000000,1400000000,300000
t2,slow,root,front,Get,2000000000,9000000000,7000000
t2,late,slow,back,Read,2100000000,8900000000,6800000
t2,late,slow,back,Read,2100000000,8900000000,6800000
t3,odd,root,front,Get,5000000000,4000000000,1
"""

Purgatory = Callable[..., tuple[int, str]]


@pytest.fixture
def purgatory(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Purgatory:
    """Runs the command in this process, on the tests' session.

    Its exit code and all that it said.
    """

    @contextmanager
    def session() -> Iterator[tuple[SparkSession, Console]]:
        yield spark, Console(highlight=False, width=200, file=sys.stdout)

    monkeypatch.setattr(main, "open_session", session)

    def call(*arguments: object) -> tuple[int, str]:
        code = main.main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out + said.err

    return call


@pytest.mark.parametrize(
    "command",
    [(), *[(name,) for name in COMMANDS]],
    ids=lambda command: " ".join(command) or "none",
)
def test_help_shows_an_example(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """And ends well, without Spark."""
    with pytest.raises(SystemExit) as ended:
        main.main([*command, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert re.search(rf"examples?:\n  purgatory {' '.join(command)}", said)


def test_each_step_takes_what_the_one_before_made(purgatory: Purgatory, tmp_path: Path) -> None:
    """And says what comes next."""
    trace, wheel, legacy, analysis = (
        tmp_path / name for name in ("trace", "wheel", "legacy", "analysis")
    )
    code, said = purgatory(
        "workload", "--case", "high", "--requests", "2000", "--hosts", "2", "--out", trace
    )
    assert (code, f"next: purgatory replay {trace}" in said) == (0, True)
    code, said = purgatory("replay", trace, "--tick-ms", "5", "--out", wheel)
    assert (code, f"next: purgatory analyze {trace} --replay {wheel}" in said) == (0, True)
    assert purgatory("replay", trace, "--design", "legacy", "--out", legacy)[0] == 0
    code, said = purgatory(
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
    assert (code, f"next: purgatory report {analysis}" in said) == (0, True)
    assert re.search(r"workload high +wheel +2,000 +\d\d\.\d %", said)
    report = tmp_path / "report.html"
    assert purgatory("report", analysis, "--out", report)[0] == 0
    assert "workload high" in report.read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "analysis",
        "legacy",
        "report.html",
        "trace",
        "wheel",
    ]


def test_run_imports_replays_and_reports(purgatory: Purgatory, tmp_path: Path) -> None:
    """A folder of gzipped spans, with a repeat and an impossible one, marked in the middle."""
    source = tmp_path / "spans"
    source.mkdir()
    (source / "one.csv.gz").write_bytes(gzip.compress(SPANS.encode()))
    out = tmp_path / "run"
    code, said = purgatory(
        "run", "--trace", source, "--mark", "1970-01-01T00:00:01.5=middle", "--out", out
    )
    assert code == 0
    assert "6 spans in, 4 spans kept, 2 rejected, 2 requests out, 2 events out" in said
    assert "rejected 1: end before start" in said
    assert "rejected 1: repeated SpanID" in said
    assert "before middle: 0.0 % of 1 requests expired" in said
    assert "after middle: 100.0 % of 1 requests expired" in said
    assert f"report: {out}/report.html" in said
    assert (out / "report.html").stat().st_size > 50_000
    assert read_json(out / "traces" / "spans" / "trace.json")["rejected"] == {
        "end before start": 1,
        "repeated SpanID": 1,
    }


def test_outcomes_that_differ_have_an_exit_code_of_their_own(
    purgatory: Purgatory, tmp_path: Path
) -> None:
    """As when a replay is of another trace."""
    one, other, replayed = tmp_path / "one", tmp_path / "other", tmp_path / "replayed"
    waiting = [TraceRequest(name, 0, 3, [name], "count", 1.0, "all") for name in ("a", "b", "c")]
    write_trace(one, waiting, [TraceEvent("a", 1000, 1.0)])
    write_trace(other, waiting, [TraceEvent("b", 1000, 1.0)])
    assert purgatory("replay", other, "--out", replayed)[0] == 0
    code, said = purgatory("analyze", one, "--replay", replayed, "--out", tmp_path / "analysis")
    assert code == main.OUTCOMES_DIFFER == 3
    assert "2 rows of the replays differ from the batch outcomes" in said


def test_bad_input_is_told_by_name_and_leaves_nothing(purgatory: Purgatory, tmp_path: Path) -> None:
    """Exit code 2, the value or file in the message, and no output half made."""
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
            "the mapping needs one of ended_at=COLUMN and service_ms",
        ),
        (
            ("import", table, "--map", "arrived_at=x", "--map", "ended_at=y", "--out", out),
            "table.csv: no column x, y",
        ),
        (("import", table, "--mark", "yesterday", "--out", out), "mark must be TIME or TIME=LABEL"),
        (("import", table, "--timeout-ms", "-1", "--out", out), "timeout_ms must be from 0 to"),
        (
            ("workload", "--rate", "0", "--out", out),
            "rate must be a positive number of requests a second, got 0.0",
        ),
        (("replay", tmp_path, "--out", out), "no trace folder, as there is no trace.json in it"),
        (("report", tmp_path, "--out", out), "no analysis folder"),
    ]:
        code, said = purgatory(*arguments)
        assert code == main.BAD_INPUT == 2, said
        assert expected in said
        assert sorted(path.name for path in tmp_path.iterdir()) == ["junk.csv", "table.csv"]


def test_existing_output_is_kept_unless_forced(purgatory: Purgatory, tmp_path: Path) -> None:
    """And then replaced as a whole."""
    out = tmp_path / "out"
    assert purgatory("workload", "--requests", "10", "--out", out)[0] == 0
    code, said = purgatory("workload", "--requests", "20", "--out", out)
    assert code == 2
    assert "exists already: choose another --out, or --force to replace it" in said
    assert read_json(out / "trace.json")["rows"]["requests out"] == 10
    assert purgatory("workload", "--requests", "20", "--force", "--out", out)[0] == 0
    assert read_json(out / "trace.json")["rows"]["requests out"] == 20


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["workload", "--requests", "none", "--out", "x"], "a whole number, not 'none'"),
        (["workload", "--requests", "0", "--out", "x"], "at least 1, not 0"),
        (
            ["run", "--timeouts", "5,soon"],
            "whole numbers of milliseconds with commas between them, not '5,soon'",
        ),
        (
            ["import", "x", "--map", "arrived_at", "--out", "y"],
            "OUR_FIELD=THEIR_COLUMN, not 'arrived_at'",
        ),
        (["replay", "x", "--design", "heap", "--out", "y"], "invalid choice: 'heap'"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_impossible_arguments_are_told_by_value(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is started."""
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


def test_missing_extra_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library itself installs without Spark."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for name in [name for name in sys.modules if name.startswith("request_purgatory.pipeline")]:
        monkeypatch.delitem(sys.modules, name)
    assert main.main(["run"]) == main.MISSING_TOOL == 4
    assert "pip install 'request-purgatory[spark]'" in capsys.readouterr().err


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The installed command, in a process of its own."""
    program = Path(sys.executable).with_name("purgatory")
    return subprocess.run(
        [str(program), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_missing_java_is_told_before_any_work(tmp_path: Path) -> None:
    """Exit code 4, and what to install."""
    ran = command("run", "--out", str(tmp_path / "out"), JAVA_HOME=str(tmp_path))
    assert ran.returncode == main.MISSING_TOOL
    assert "Spark needs Java 17 or newer" in ran.stderr
    assert "Install it with: " in ran.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.jvm
def test_installed_command_does_the_whole_run(tmp_path: Path) -> None:
    """With a session of its own, as users start it."""
    ran = command("run", "--requests", "2000", "--workload", "low", "--out", str(tmp_path / "out"))
    assert ran.returncode == 0, ran.stderr
    assert "✓ replay low, wheel" in ran.stdout
    assert re.search(r"workload low +legacy +2,000 .* 0 *$", ran.stdout, re.MULTILINE)
    assert (tmp_path / "out" / "report.html").exists()
    assert "Traceback" not in ran.stderr


def test_published_benchmark_from_the_command(purgatory: Purgatory, tmp_path: Path) -> None:
    """Measured, reported, and reported again beside others."""
    made = tmp_path / "bench"
    code, said = purgatory(
        "bench", "--case", "low", "--rates", "0", "--requests", 1_000, "--rounds", 1, "--out", made
    )
    assert code == 0, said
    assert "enqueue_rate" in said
    assert "<svg" in (made / "report.html").read_text()
    code, said = purgatory("report", "--bench", made, "--out", tmp_path / "again.html")
    assert code == 0, said
    assert "Benchmarks: bench" in (tmp_path / "again.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bench", "--rates", "many", "--out", "x"), "whole numbers of requests a second"),
        (("bench", "--rates=-5,1", "--out", "x"), "at least 0 each, not '-5,1'"),
    ],
)
def test_odd_rates_are_refused(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything runs."""
    with pytest.raises(SystemExit):
        main.main(list(arguments))
    assert message in capsys.readouterr().err


def test_report_of_nothing_is_refused(purgatory: Purgatory, tmp_path: Path) -> None:
    """It would be an empty page."""
    code, said = purgatory("report", "--out", tmp_path / "report.html")
    assert code == 2
    assert "at least one folder, or --bench with one" in said
