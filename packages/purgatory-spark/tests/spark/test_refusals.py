"""Tests of errors for invalid arguments and inputs, and of output folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._analysis.replay_folder import ReplayFolder
from purgatory_spark._errors import SchemaError, TraceFormatError
from purgatory_spark._outcomes.replay import ReplaySettings
from purgatory_spark._output_folder import OutputExistsError, output_folder
from purgatory_spark._rows.schema import EVENTS, require
from purgatory_spark._run import _folder_names
from purgatory_spark._spark import memory, session
from purgatory_spark._spark.java import JavaNotFoundError
from purgatory_spark._traces.marks import Mark
from purgatory_spark._traces.trace_folder import TraceFolder
from purgatory_spark._traces.trace_reader import ImportSettings
from purgatory_spark._traces.workload import LOW_TIMEOUT
from request_purgatory import InvalidArgumentError


@pytest.mark.parametrize(
    ("name", "value"), [("tick_ms", 0), ("wheel_size", 0), ("purge_interval", -1), ("shards", 0)]
)
def test_invalid_replay_settings_are_an_error(name: str, value: int) -> None:
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
def test_workload_beyond_the_range_of_types_and_times_is_an_error(name: str, value: float) -> None:
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
def test_invalid_import_settings_are_an_error(name: str, value: Any) -> None:
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
def test_mark_is_parsed_as_time_and_label(text: str, at: str, label: str) -> None:
    mark = Mark.parse(text)
    assert (mark.at.isoformat(), mark.label) == (at, label)


@pytest.mark.parametrize("content", ["", "{", '{"rows": '])
def test_damaged_manifest_is_an_error(tmp_path: Path, content: str) -> None:
    for file in ("trace.json", "replay.json", "analysis.json"):
        (tmp_path / file).write_text(content)
    for open_folder, file in (
        (lambda: TraceFolder(tmp_path), "trace.json"),
        (lambda: ReplayFolder(tmp_path).settings, "replay.json"),
        (lambda: Analysis(tmp_path).manifest, "analysis.json"),
    ):
        with pytest.raises(TraceFormatError, match=rf"{file}: "):
            open_folder()


def test_file_instead_of_a_trace_folder_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "spans.csv"
    file.touch()
    with pytest.raises(
        TraceFormatError,
        match=r"spans\.csv is not a trace folder .*make one with `purgatory import`",
    ):
        TraceFolder(file)


def test_table_of_another_schema_is_an_error(spark: SparkSession) -> None:
    table = spark.createDataFrame([], "amount int, key string, more string, occurred_at timestamp")
    with pytest.raises(SchemaError) as error:
        require(table, EVENTS, "events")
    assert str(error.value) == "events: host (string) is missing; amount is int, not double"
    good = spark.createDataFrame(
        [], "amount double, key string, more string, occurred_at timestamp, host string"
    )
    assert require(good, EVENTS, "events").schema.names == EVENTS.names


def test_active_session_is_returned(spark: SparkSession) -> None:
    assert session.create_session() is spark
    for name, value in session.SETTINGS.items():
        assert spark.conf.get(name) == value


def test_session_without_java_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(session.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session.SparkContext, "_active_spark_context", None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFoundError, match="Spark needs Java 17 or newer"):
        session.create_session()


def test_size_with_many_keys_is_measured_with_fewer_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    class Counted(memory._PendingOperation):
        def __init__(self, timeout_ms: int) -> None:
            super().__init__(timeout_ms)
            made.append(self)

    monkeypatch.setattr(memory, "_PendingOperation", Counted)
    assert memory.bytes_per_pending_operation(1000, operations=3000) > 50 * 1000
    assert len(made) == 6
    assert memory.bytes_per_pending_operation(10_000, operations=3000) > 50 * 10_000
    assert len(made) == 7


def test_file_is_never_replaced_by_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with (
        pytest.raises(OutputExistsError, match="was not made by purgatory"),
        output_folder(tmp_path / "out", replace=True),
    ):
        pytest.fail("the block must not run")
    assert (tmp_path / "out").read_text() == "a file"


def test_target_of_a_symbolic_link_is_replaced(tmp_path: Path) -> None:
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


def test_earlier_output_is_restored_if_renaming_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_traces_of_the_same_name_get_different_folders() -> None:
    assert _folder_names(["low", "low", "low-2", "low"]) == ["low", "low-2", "low-2-2", "low-3"]
