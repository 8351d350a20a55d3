"""Reports on traces with unusual names, written in an unusual time zone."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from purgatory_spark._analysis.analysis import analyze
from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._analysis.replay_folder import ReplayFolder, replay_trace
from purgatory_spark._analysis.report import write_report
from purgatory_spark._outcomes.replay import ReplaySettings
from purgatory_spark._run import print_row_counts, print_summary
from purgatory_spark._traces.marks import Mark
from purgatory_spark._traces.trace_folder import TraceFolder
from tests.spark.small_analyses import new_folder
from tests.spark.trace_folders import NOON, event, make_trace, request

NAME = "[bold] *{a,b} [/x] $y$ <b>"
SETTINGS = [ReplaySettings(tick_ms=10), ReplaySettings()]


@pytest.fixture(scope="module")
def odd(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TraceFolder, Analysis]:
    """Make a trace whose folder, host, types and mark have `NAME`, with three replays."""
    folder = tmp_path_factory.mktemp("odd") / "[1] {2}"
    folder.mkdir()
    requests = [request(number, after_us=number * 1000) for number in range(4)]
    events = [event(0, after_us=500), event(1, after_us=1500)]
    types: list[str | None] = [NAME, None, NAME, "$\\frac"]
    trace = make_trace(
        spark,
        folder / NAME.replace("/", "|"),
        requests,
        events,
        host=NAME,
        types=types,
        marks=(Mark(NOON, NAME),),
    )
    replays = [
        replay_trace(spark, trace, chosen, new_folder(folder / f"[{n}]"))
        for n, chosen in enumerate(SETTINGS)
    ]
    # A copy stands for another replay with the same settings.
    replays.append(ReplayFolder(shutil.copytree(replays[1].path, folder / "[2]")))
    return trace, analyze(spark, trace, replays, new_folder(folder / "{analysis}"), [5])


@contextmanager
def far_west() -> Iterator[None]:
    """Put the machine 9 to 10 hours behind UTC for the block."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TZ", "Pacific/Marquesas")
            time.tzset()
            yield
    finally:
        time.tzset()


@pytest.fixture(scope="module")
def page(odd: tuple[TraceFolder, Analysis], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write the report on a machine that is far from UTC, once for the tests that read it."""
    with far_west():
        file = write_report([odd[1]], tmp_path_factory.mktemp("page") / "report.html")
    # Without the values that cells have beside their texts.
    return re.sub("<(td|tr) [^>]*>", r"<\1>", file.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_times_are_utc_wherever_the_report_is_written(page: str) -> None:
    assert ">2022-08-22 12:00:00</td>" in page
    charts = [json.loads(html.unescape(text)) for text in re.findall('data-chart="([^"]*)"', page)]
    starts = {chart["x"]["start"] for chart in charts if "group" in chart}
    assert starts == {NOON.timestamp() * 1000}
    assert "02:30" not in page


@pytest.mark.slow
def test_names_are_shown_as_they_are(page: str) -> None:
    assert page.count("<b>") == len(re.findall('<div class="card[ "]', page))
    escaped = NAME.replace("<", "&lt;").replace(">", "&gt;")
    assert page.count(f"<td>{escaped}</td>") >= 3
    assert "<td>request</td>" in page


def test_console_shows_names_as_they_are(odd: tuple[TraceFolder, Analysis]) -> None:
    trace, analysis = odd
    text = io.StringIO()
    console = Console(file=text, width=200)
    print_row_counts(console, trace)
    assert print_summary(console, [analysis]) == 0
    assert f"All requests of the trace arrived after {NAME} (" in text.getvalue()
    assert NAME.replace("/", "|")[:20] in text.getvalue()


@pytest.mark.parametrize("width", [72, 80, 90, 120])
def test_console_of_any_width_breaks_no_number(
    odd: tuple[TraceFolder, Analysis], width: int
) -> None:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=True, color_system=None)
    print_summary(console, [odd[1]])
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in text.getvalue()
    words = ["trace", "design", "peak", "pending", "purges", "task", "time", "differ"]
    assert words in [line.split() for line in lines]


def test_replays_of_one_design_have_distinct_labels(
    odd: tuple[TraceFolder, Analysis], page: str
) -> None:
    names = ["wheel tick_ms=1", "wheel tick_ms=1 #2", "wheel tick_ms=10"]
    for table in ("agreement", "lateness", "hosts"):
        assert sorted(row["design"] for row in odd[1].rows(table)) == names
    for name in names:
        assert f"<tr><td>{name}</td><td>4</td><td>2</td><td>2</td>" in page
        assert f"In the replay “{name}” all 4 requests ended as computed." in page
        assert f"<td>replay, {name}</td>" in page
