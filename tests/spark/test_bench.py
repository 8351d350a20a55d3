"""Benchmarks' results: summarized by Spark, drawn, and put into a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from request_purgatory import InvalidArgumentError
from request_purgatory.pipeline.analysis.report import write_report
from request_purgatory.published_benchmark import report_section, run
from request_purgatory.published_benchmark.charts import curve, published_figure
from request_purgatory.published_benchmark.report_section import (
    BenchPlan,
    benchmark_section,
    figure,
    run_published,
)
from request_purgatory.published_benchmark.results import read_measurements, summarize


def record(side: str, value: float, **changed: Any) -> dict[str, Any]:
    """One measured value."""
    made = {
        "question": "timer_cycle",
        "side": side,
        "case": "pending=10",
        "size": 10.0,
        "metric": "ns_per_operation",
    }
    return {**made, "unit": "ns", "round": 0, "value": value, **changed}


def folder_with(folder: Path, records: list[dict[str, Any]]) -> Path:
    """A benchmark's folder with these records."""
    folder.mkdir(exist_ok=True)
    (folder / "measurements.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    return folder


def test_summary_has_the_median_of_the_rounds(spark: SparkSession, tmp_path: Path) -> None:
    """Least and most, too, and it is kept."""
    records = [record("ours", value, round=number) for number, value in enumerate((5.0, 1.0, 3.0))]
    folder = folder_with(tmp_path / "bench", [*records, record("theirs", 7.0)])
    rows = {row["side"]: row for row in summarize(spark, folder).collect()}
    assert [rows["ours"][name] for name in ("median", "least", "most", "rounds")] == [
        3.0,
        1.0,
        5.0,
        3,
    ]
    assert rows["theirs"]["median"] == 7.0
    assert spark.read.parquet(str(folder / "summary")).count() == 2


@pytest.mark.parametrize(
    "line", ['{"question": "x"', '{"question": "x", "value": "many"}', '{"question": "x"}']
)
def test_line_that_is_no_record_is_named(spark: SparkSession, tmp_path: Path, line: str) -> None:
    """Half a line, no number, no value."""
    folder = folder_with(tmp_path / "bench", [record("ours", 1.0)])
    with (folder / "measurements.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InvalidArgumentError, match="one record a line"):
        read_measurements(spark, folder)


def test_folder_without_measurements_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(
        InvalidArgumentError, match=r"a folder with measurements.jsonl, got '.*nothing'"
    ):
        summarize(spark, tmp_path / "nothing")


def test_section_has_a_line_for_each_case_and_a_column_for_each_side(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In the order in which things were measured; what a side has no value for stays open."""
    records = [
        record("ours", 10.0),
        record("theirs", 20.0),
        record("ours", 11.0, case="pending=100", size=100.0),
        record(
            "ours",
            1.0,
            question="memory",
            metric="bytes_per_pending",
            unit="bytes",
            case="kind=handle",
        ),
    ]
    folder = folder_with(tmp_path / "bench", records)
    (folder / "not_measured.jsonl").write_text(
        json.dumps(
            {"question": "memory", "side": "trio", "case": "x", "reason": "<none>", "failed": True}
        )
        + "\n"
    )
    section = benchmark_section(spark, folder)
    cycle, memory = section["questions"]
    assert (cycle["name"], cycle["sides"], memory["sides"]) == (
        "timer_cycle",
        ["ours", "theirs"],
        ["ours"],
    )
    assert [[value and value["median"] for value in line["values"]] for line in cycle["lines"]] == [
        [10.0, 20.0],
        [11.0, None],
    ]
    assert "<svg" in cycle["chart"]
    assert memory["chart"] == ""
    page = write_report(spark, [], tmp_path / "report.html", benchmarks=[section]).read_text()
    assert "FAILED: &lt;none&gt;" in page
    assert "Benchmarks: bench" in page
    assert "How requests waited" not in page


def test_published_figures_are_drawn_of_both_cases() -> None:
    """The unthrottled runs stand at the axis' end; the tight heap is a table's matter."""
    rows = [
        {
            "side": side,
            "case": f"case={case} rate={rate} count=9",
            "size": float(rate),
            "metric": "enqueue_rate",
            "position": 0,
        }
        | {"median": 10.0, "least": 9.0, "most": 12.0}
        for side in ("request_purgatory", "kafka", "somebody else")
        for case in ("low", "high")
        for rate in (25_000, 100_000, 0)
    ]
    tight = [rows[0] | {"case": "case=low rate=0 count=9 heap_mb=192", "size": 0.0}]
    svg = published_figure(rows + tight, "enqueue_rate", "enqueued a second", "title")
    words = [
        "".join(text.itertext())
        for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"25k", "100k", "no limit", "kafka", "somebody else", "target"} <= set(words)


def test_curve_has_a_line_for_each_side() -> None:
    """Well-formed, with a legend."""
    rows = [
        {"side": side, "size": size, "median": 5.0, "least": 4.0, "most": 6.0, "position": 1}
        for side in "ab"
        for size in (1, 10)
    ]
    assert ElementTree.fromstring(curve(rows, "ns", "title", "pending")).tag.endswith("svg")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.0123, "0.012"),
        (1.234, "1.2"),
        (56.78, "56.8"),
        (567.8, "568"),
        (1234567.8, "1,234,568"),
    ],
)
def test_figures_have_digits_that_mean_something(value: float, text: str) -> None:
    """And no more."""
    assert figure(value) == text


def test_plan_compares_neighbours_and_keeps_runs_short() -> None:
    """The designs of one load follow one another.

    A rate's run lasts some seconds, at most the requests asked for.
    """
    loads = BenchPlan(cases=["low"], rates=[1_000, 900_000, 0], requests=1_000_000).loads()
    assert [(load.design, load.rate, load.count) for load in loads] == [
        ("wheel", 1_000, 4_000),
        ("legacy", 1_000, 4_000),
        ("wheel", 900_000, 1_000_000),
        ("legacy", 900_000, 1_000_000),
        ("wheel", 0, 1_000_000),
        ("legacy", 0, 1_000_000),
    ]


def test_run_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it printed; nothing is made up in its place."""
    load = run.Load(count=10)
    object.__setattr__(load, "case", "middle")
    monkeypatch.setattr(BenchPlan, "loads", lambda _plan: [load])
    with pytest.raises(
        RuntimeError, match=r"exit code 2: .*case must be one of low, high, got 'middle'"
    ):
        run_published(BenchPlan(rounds=1), tmp_path, Console(file=None, quiet=True))
    assert (tmp_path / "measurements.jsonl").read_text() == ""


def test_rounds_take_turns_in_going_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other round is reversed, and each value is written with its round."""
    measured: list[tuple[str, int]] = []

    def measure(load: run.Load) -> dict[str, float]:
        measured.append((load.design, load.rate))
        return {"enqueue_rate": float(len(measured))}

    monkeypatch.setattr(report_section, "_measure", measure)
    plan = BenchPlan(cases=["low"], rates=[5_000, 0], requests=100, rounds=2)
    run_published(plan, tmp_path, Console(quiet=True))
    first = [("wheel", 5_000), ("legacy", 5_000), ("wheel", 0), ("legacy", 0)]
    assert measured == first + first[::-1]
    lines = (tmp_path / "measurements.jsonl").read_text().splitlines()
    written = [(one["round"], one["value"], one["unit"]) for one in map(json.loads, lines)]
    assert written == [(number // 4, number + 1.0, "1/s") for number in range(8)]


def test_published_benchmark_is_measured_and_told(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole way, with few requests, in processes of their own."""
    target = tmp_path / "out"
    plan = BenchPlan(cases=["low"], rates=[5_000, 0], requests=300, rounds=1)
    target.mkdir()
    run_published(plan, target, Console(quiet=True))
    section = benchmark_section(spark, target)
    assert section["questions"][0]["sides"] == list(report_section.SIDES.values())
    assert [title for title, _ in section["figures"]] == [
        title for _, _, title in report_section._FIGURES
    ]
    report_section.print_published(Console(width=200), section)
    said = capsys.readouterr().out
    assert "enqueue_rate" in said
    assert "case=low rate=0 count=300" in said
