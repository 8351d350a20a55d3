"""The Python examples of the pipeline's page, in a session that the package did not make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.stream.endpoints.address import parse_endpoints
from request_purgatory.pipeline.traces.workload import Workload
from request_purgatory.pipeline.traces.workload_blocks import workload_trace
from tests.spark.foreign_sessions import foreign_session
from tests.unit.test_readme import blocks

PAGE = "docs/explanation/pipeline.md"
ZONE = {"session__timeZone": "America/New_York", "ansi__enabled": "false"}


def run_example(
    number: int, names: dict[str, Any], changes: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run an example of the page with these names and changes, and return the names after it."""
    code, _ = blocks(PAGE)[number]
    for old, new in (changes or {}).items():
        code = code.replace(old, new)
    exec(compile(code, f"{PAGE} {number}", "exec"), names)
    return names


def test_stream_example_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session is the user's own, as the page says."""
    monkeypatch.chdir(tmp_path)
    for name, table in zip(
        ("requests", "events"), workload_trace(spark, Workload(requests=50)), strict=True
    ):
        table.write.parquet(str(tmp_path / name))
    own = spark.newSession()
    for name, value in (("session.timeZone", "America/New_York"), ("ansi.enabled", "false")):
        own.conf.set(f"spark.sql.{name}", value)
    requests, events = parse_endpoints("requests", "events", "unused").read(own)
    # The JVM has a working directory of its own.
    names = {"spark": own, "requests": requests, "events": events}
    query = run_example(0, names, {'"out': f'"{tmp_path}/out'})["query"]
    try:
        query.processAllAvailable()
        assert query.exception() is None
        assert query.lastProgress.stateOperators[0].numRowsTotal > 0
    finally:
        query.stop()
    assert (tmp_path / "out").is_dir()


@pytest.mark.slow
def test_trace_example_runs(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The session is the user's own, and is not changed."""
    monkeypatch.chdir(tmp_path)
    with foreign_session(spark, **ZONE) as session:
        run_example(1, {"running": session}, {"= create_session()": "= running"})
    shown = capsys.readouterr().out
    assert "| web|completed|    1|" in shown
    assert " wheel|   2|        0|   NULL|" in shown
    assert (tmp_path / "report" / "report.html").exists()


def test_batch_and_import_examples_run(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each goes on where the one before ends."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "calls.csv").write_text("start,took\n2024-03-10 02:30:00,12\nsoon,1\n")
    with foreign_session(spark, **ZONE) as session:
        names = run_example(2, {"spark": session})
        names = run_example(3, names)
        run_example(4, names)
    shown = capsys.readouterr().out
    assert "|completed|" in shown
    assert "unparsable start" in shown
    # The first write has two acknowledgements in time, the second one has none.
    ended = shown.rpartition("waited_ms")[2]
    assert ("|completed|     20.0|" in ended, "|  expired|    250.0|" in ended) == (True, True)


def test_every_example_is_run() -> None:
    """None is left out."""
    assert len(blocks(PAGE)) == 5
