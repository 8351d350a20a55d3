"""The pages whose Python blocks need Spark, in sessions that the package did not make."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import purgatory_spark
from tests.docs import snippets
from tests.docs.test_snippets import NOT_RUN, RUN_ELSEWHERE
from tests.spark.foreign_sessions import foreign_session

STREAMS = "docs/explanation/streams.md"
ANALYZE = "docs/how_to/analyze_from_python.md"
MANAGED = "docs/how_to/run_on_managed_spark.md"
TUTORIAL = "docs/tutorials/data_engineer.md"

ZONE = {"session__timeZone": "America/New_York", "ansi__enabled": "false"}


def run_page(
    page: str,
    session: SparkSession,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: Sequence[str] = (),
) -> None:
    """Run a page's blocks in `session` and `folder`, and compare what they print.

    Args:
        page: The page.
        session: What `create_session` returns.
        folder: The working directory.
        monkeypatch: Undoes the changes.
        files: Names of files that the page gives to Spark. They become absolute, as the JVM of the
            tests has a working directory of its own.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setattr(purgatory_spark, "create_session", lambda: session, raising=False)
    names: dict[str, object] = {}
    for number, block in enumerate(snippets.blocks(page), 1):
        code = block.code
        for file in files:
            code = code.replace(f'"{file}"', f'"{folder / file}"')
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, f"{page} {number}", "exec"), names)
        assert block.difference(out.getvalue()) is None, block.difference(out.getvalue())


@pytest.mark.slow
def test_page_on_streams_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session is the user's own."""
    own = spark.newSession()
    for name, value in (("session.timeZone", "America/New_York"), ("ansi.enabled", "false")):
        own.conf.set(f"spark.sql.{name}", value)
    files = ["in/requests", "in/events", "out", "out.checkpoint"]
    run_page(STREAMS, own, tmp_path, monkeypatch, files)
    assert list((tmp_path / "out" / "kind=outcomes").glob("*.parquet"))


@pytest.mark.slow
def test_page_on_analyses_from_python_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session is the user's own, and is not changed."""
    (tmp_path / "calls.csv").write_text("start,took\n2024-03-10 02:30:00,12\nsoon,1\n")
    with foreign_session(spark, **ZONE) as session:
        run_page(ANALYZE, session, tmp_path, monkeypatch)


@pytest.mark.slow
def test_page_on_managed_spark_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session is local here, so nothing is sent."""
    run_page(MANAGED, spark, tmp_path, monkeypatch)


@pytest.mark.slow
def test_tutorial_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the user's own session, too; the report is there at the end."""
    with foreign_session(spark, **ZONE) as session:
        run_page(TUTORIAL, session, tmp_path, monkeypatch, ["calls.csv"])
    assert (tmp_path / "report" / "report.html").exists()


def test_every_page_that_needs_spark_is_run() -> None:
    """None is left out."""
    found = {page for page in snippets.pages() if snippets.needs_spark(page)}
    assert found - {*NOT_RUN, *RUN_ELSEWHERE} == {STREAMS, ANALYZE, MANAGED, TUTORIAL}
