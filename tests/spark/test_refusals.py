"""What is refused by its value, before any work, and what is refused by name."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from request_purgatory import InvalidArgumentError
from request_purgatory.cli import main
from request_purgatory.pipeline.analysis.analysis import Analysis, Replayed
from request_purgatory.pipeline.outcomes.replay import ReplaySettings
from request_purgatory.pipeline.run import _folder_names
from request_purgatory.pipeline.spark import memory, session
from request_purgatory.pipeline.spark.java import JavaNotFoundError
from request_purgatory.pipeline.traces.importers.imported import TraceFormatError
from request_purgatory.pipeline.traces.output_folder import OutputExistsError, output_folder
from request_purgatory.pipeline.traces.schema import EVENTS, SchemaError, require
from request_purgatory.pipeline.traces.trace_folder import ImportSettings, Mark, Trace
from request_purgatory.pipeline.traces.workload import LOW_TIMEOUT


@pytest.mark.parametrize(
    ("name", "value"), [("tick_ms", 0), ("wheel_size", 0), ("purge_interval", -1), ("shards", 0)]
)
def test_purgatory_that_can_not_be_is_refused_before_the_replay(name: str, value: int) -> None:
    """And not by every task of it."""
    with pytest.raises(InvalidArgumentError, match=f"{name} must be .*got {value}"):
        ReplaySettings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout_ms", 2**31),
        ("seed", 2**64),
        ("rate", 1e-9),
        ("rate", float("nan")),
        ("rate", float("inf")),
    ],
)
def test_workload_beyond_the_types_and_the_calendar_is_refused(name: str, value: float) -> None:
    """By its value."""
    with pytest.raises(InvalidArgumentError, match=f"{name} must be .*got"):
        replace(LOW_TIMEOUT, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", "otel"),
        ("time_unit", "min"),
        ("keys", "parents"),
        ("timeout_ms", -1),
        ("timeout_ms", 2**31),
        ("ms_per_context_token", float("nan")),
        ("ms_per_generated_token", -0.1),
    ],
)
def test_import_settings_that_can_not_be_are_refused(name: str, value: Any) -> None:
    """With what there is."""
    with pytest.raises(InvalidArgumentError, match=f"{name} must be .*got"):
        ImportSettings(**{name: value})


@pytest.mark.parametrize(
    ("text", "at", "label"),
    [
        ("2022-08-22T05:27:06", "2022-08-22T05:27:06+00:00", "mark"),
        ("2022-08-22T05:27:06+02:00= a = b ", "2022-08-22T05:27:06+02:00", "a = b"),
        (" 2022-08-22 =", "2022-08-22T00:00:00+00:00", "mark"),
    ],
)
def test_mark_is_a_time_and_what_happened(text: str, at: str, label: str) -> None:
    """UTC unless it names a zone."""
    mark = Mark.parse(text)
    assert (mark.at.isoformat(), mark.label) == (at, label)


@pytest.mark.parametrize("content", ["", "{", '{"rows": '])
def test_damaged_manifest_is_told_by_its_path(tmp_path: Path, content: str) -> None:
    """Of all three kinds of folders."""
    for file in ("trace.json", "replay.json", "analysis.json"):
        (tmp_path / file).write_text(content)
    for open_folder, file in (
        (lambda: Trace(tmp_path), "trace.json"),
        (lambda: Replayed(tmp_path).settings, "replay.json"),
        (lambda: Analysis(tmp_path).manifest, "analysis.json"),
    ):
        with pytest.raises(TraceFormatError, match=rf"{file}: "):
            open_folder()


def test_file_in_the_place_of_a_trace_folder_is_told_what_to_do(tmp_path: Path) -> None:
    """The step that is most easily forgotten."""
    file = tmp_path / "spans.csv"
    file.touch()
    with pytest.raises(TraceFormatError, match=r"spans\.csv: .*make one with `purgatory import`"):
        Trace(file)


def test_table_of_other_types_is_refused_with_each_difference(spark: SparkSession) -> None:
    """What it has too much is dropped."""
    table = spark.createDataFrame([], "amount int, key string, more string, occurred_at timestamp")
    with pytest.raises(SchemaError) as told:
        require(table, EVENTS, "events")
    assert str(told.value) == "events: host (string) is missing; amount is int, not double"
    good = spark.createDataFrame(
        [], "amount double, key string, more string, occurred_at timestamp, host string"
    )
    assert require(good, EVENTS, "events").schema.names == EVENTS.names


def test_session_is_the_running_one_with_our_settings(spark: SparkSession) -> None:
    """Whoever asks for one gets it."""
    assert session.create_session() is spark
    for name, value in session.SETTINGS.items():
        if name != "spark.sql.shuffle.partitions":  # which the tests' session has of its own
            assert spark.conf.get(name) == value


def test_session_without_java_is_refused_before_spark_tries(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark's own message would be a traceback."""
    monkeypatch.setattr(session.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFoundError, match="Spark needs Java 17 or newer"):
        session.create_session()


def test_request_of_many_keys_is_measured_with_fewer_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twenty thousand requests of a hundred thousand keys would not fit into memory."""
    made = []

    class Counted(memory._Waiting):
        def __init__(self, timeout_ms: int) -> None:
            super().__init__(timeout_ms)
            made.append(self)

    monkeypatch.setattr(memory, "_Waiting", Counted)
    assert memory.bytes_per_pending_operation(1000, operations=3000) > 50 * 1000
    assert len(made) == 6
    assert memory.bytes_per_pending_operation(10_000, operations=3000) > 50 * 10_000
    assert len(made) == 7


def test_file_is_never_replaced_by_a_folder(tmp_path: Path) -> None:
    """Not even on request."""
    (tmp_path / "out").write_text("a file")
    with (
        pytest.raises(OutputExistsError, match="was not made by purgatory"),
        output_folder(tmp_path / "out", replace=True),
    ):
        pytest.fail("the block must not run")
    assert (tmp_path / "out").read_text() == "a file"


def test_link_stays_and_the_folder_behind_it_is_replaced(tmp_path: Path) -> None:
    """As with a link to the latest run."""
    with output_folder(tmp_path / "run") as folder:
        (folder / "old").touch()
    (tmp_path / "latest").symlink_to("run")
    with output_folder(tmp_path / "latest", replace=True) as folder:
        (folder / "new").touch()
    assert (tmp_path / "latest").is_symlink()
    assert [path.name for path in (tmp_path / "run").iterdir() if path.name != ".purgatory"] == [
        "new"
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "run"]


def test_earlier_output_is_put_back_when_the_new_one_can_not_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two renames there is nothing at the target."""
    with output_folder(tmp_path / "out") as folder:
        (folder / "old").touch()
    rename = Path.rename

    def fail_for_the_new_one(path: Path, target: Path) -> Path:
        if ".partial-" in path.name:
            raise OSError("no space left")
        return rename(path, target)

    def replace_it() -> None:
        with output_folder(tmp_path / "out", replace=True):
            monkeypatch.setattr(Path, "rename", fail_for_the_new_one)

    with pytest.raises(OSError, match="no space left"):
        replace_it()
    assert (tmp_path / "out" / "old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_traces_of_one_name_get_folders_of_their_own() -> None:
    """Also where the numbered name is taken."""
    assert _folder_names(["low", "low", "low-2", "low"]) == ["low", "low-2", "low-2-2", "low-3"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "--timeouts", "-1"], "from 0 to 2,147,483,647, not '-1'"),
        (["run", "--timeouts", "1,2147483648"], "from 0 to 2,147,483,647"),
        (["run", "--workload"], "expected at least one argument"),
    ],
)
def test_arguments_beyond_what_can_be_are_refused(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is made."""
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    assert ended.value.code == main.BAD_INPUT
    assert expected in capsys.readouterr().err


def test_report_is_never_written_over_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Told before Spark starts, also with --force."""
    (tmp_path / "analysis.json").write_text("{}")
    assert main.main(["report", str(tmp_path), "--force", "--out", str(tmp_path)]) == main.BAD_INPUT
    assert "is a folder, and the report is one file" in capsys.readouterr().err


def test_package_that_is_missing_later_is_told_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As when the extra was installed by halves."""
    (tmp_path / "analysis.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "request_purgatory.pipeline.analysis.report", raising=False)
    assert (
        main.main(["report", str(tmp_path), "--out", str(tmp_path / "report.html")])
        == main.MISSING_TOOL
    )
    assert "'jinja2' is not installed" in capsys.readouterr().err
