"""Input that can't be used is refused before a Spark session is asked for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from purgatory_command_line.exit_codes import ExitCode
from purgatory_spark._output_folder import write_json
from tests.spark.command import Purgatory

pytestmark = pytest.mark.usefixtures("no_session")

#: CPU seconds within which a command is refused, once its modules are imported.
TIME_LIMIT = 0.5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder with some inputs."""
    (tmp_path / "table.csv").write_text("when,what\n1,2\n")
    (tmp_path / "log.csv").write_text(
        "request_id,pod,start,took,status\n17,a,1661169600000,3.5,200\n"
    )
    (tmp_path / "junk.csv").write_bytes(b"\x00\xff\xfe\x01 not text")
    (tmp_path / "file").touch()
    for name in ("requests", "events", "full", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    trace = {"name": "low", "rows": {"requests out": 1}, "rejected": {}, "notes": [], "marks": []}
    for name, rows in (("trace", 1), ("no-requests", 0)):
        (tmp_path / name).mkdir()
        write_json(tmp_path / name / "trace.json", trace | {"rows": {"requests out": rows}})
    return tmp_path


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("import nowhere --out new", "nowhere: no such file or folder"),
        ("import junk.csv --out new", "junk.csv: can't be read as CSV text"),
        (
            "import table.csv --out new",
            "table.csv: no known format has the columns when, what; map fields to them, for "
            "example --map arrived_at=... --map service_ms=...",
        ),
        (
            "import log.csv --out new",
            "for example --map arrived_at=start --map service_ms=took --map host=pod --time-unit "
            "ms --status status --unanswered 504,499",
        ),
        ("import table.csv --status what --out new", "unanswered must be one or more values of"),
        ("import table.csv --unanswered 504, --out new", "expected values with commas between"),
        ("import nowhere.log --log-format envoy --out new", "nowhere.log: no such file or folder"),
        ("import table.csv --log-format main --out new", "log format 'main' has no variables"),
        ("run --map arrived_at=when --out new", "map must be used with --trace, got"),
        ("run --timeout-ms 500 --out new", "timeout_ms must be used with --trace, got 500"),
        ("run --workload low --mark 2026-01-01 --out new", "mark must be used with --trace"),
        ("import table.csv --format recorded --out new", "table.csv is not a recorded trace"),
        ("import table.csv --mark yesterday --out new", "mark must be TIME or TIME=LABEL"),
        ("import table.csv --timeout-ms -1 --out new", "timeout_ms must be from 0 to"),
        ("import table.csv --map arrived_at=when --map ended_at=what --out full", "exists already"),
        ("workload --rate 0 --out new", "rate must be a positive number"),
        ("workload --out full", "full exists already: choose another --out"),
        ("workload --out full --force", "full was not made by purgatory"),
        ("workload --requests 9 --requests-per-host 9 --out new", "given without --requests"),
        ("replay nowhere --out new", "nowhere is not a trace folder (no trace.json in it)"),
        ("replay no-requests --out new", "the trace has no requests"),
        ("replay trace --out full", "full exists already"),
        ("replay trace --tick-ms 0 --out new", "tick_ms must be at least 1, got 0"),
        ("analyze nowhere --out new", "nowhere is not a trace folder"),
        ("analyze trace --replay nowhere --out new", "nowhere is not a replay folder"),
        ("analyze trace --out full", "full exists already"),
        ("report --out new", "analysis must be at least one folder"),
        ("report nowhere --out new", "nowhere is not an analysis folder"),
        ("run --trace nowhere --out new", "nowhere: no such file or folder"),
        ("run --out full", "full exists already"),
        ("run --requests 0 --out new", "requests must be at least 1, got 0"),
        ("simulate --hosts 2 --requests-per-host 10 --out full", "full exists already"),
        ("simulate --utilization 2 --out new", "utilization must be above 0 and up to 1"),
        ("stream nowhere events --out new --checkpoint c", "nowhere: no such folder"),
        ("stream requests events --out new --checkpoint c --shards 0", "shards must be at least 1"),
        (
            "stream requests events --out new --checkpoint c --drain --idle-timeout 1",
            "idle_timeout must be",
        ),
        ("stream http://x events --out new --checkpoint c", "requests must be"),
        (
            "stream requests events --out new --checkpoint c --kafka-connector a:b:c",
            "kafka_connector must be used with a kafka:// address",
        ),
        (
            "stream kafka://h:1/t events --out new --checkpoint c --kafka-connector x",
            "kafka_connector must be",
        ),
        (
            "stream requests events --out new --checkpoint c --metrics-listen x",
            "metrics_listen must be",
        ),
        ("stream requests events --out new --checkpoint c --metrics full", "metrics must be"),
        ("stream requests events --out new --checkpoint c --dashboard 65536", "port must be"),
        ("stream-state nowhere", "nowhere: no such folder"),
        ("archive new.zip", "a file whose name ends with .tar.gz or .tgz"),
    ],
)
def test_refusal_is_quick_and_leaves_nothing(
    command: str,
    message: str,
    folder: Path,
    purgatory: Purgatory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    word, *arguments = command.split()
    purgatory(word, "--help")  # imports the command's modules
    begun = time.process_time()
    ran = purgatory(word, *arguments)
    assert time.process_time() - begun < TIME_LIMIT
    assert (ran.code, ran.out) == (ExitCode.BAD_INPUT, ""), ran.err
    assert message in ran.err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_report_is_never_written_over_a_folder(
    force: list[str], tmp_path: Path, purgatory: Purgatory
) -> None:
    (tmp_path / "analysis.json").write_text("{}")
    ran = purgatory("report", tmp_path, *force, "--out", tmp_path)
    assert ran.code == ExitCode.BAD_INPUT
    assert "is a folder, and the report is one file" in ran.err
