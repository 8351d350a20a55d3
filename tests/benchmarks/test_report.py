"""Benchmark results: their summary, charts and report section, and the published benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks import published_run
from benchmarks.published_run import BenchmarkRun, measure
from benchmarks.report.charts import curve, published_figure
from benchmarks.report.results import read_measurements, summarize
from benchmarks.report.section import (
    PUBLISHED_CHARTS,
    benchmark_section,
    print_published,
)
from purgatory_spark._analysis.report import write_report
from request_purgatory import InvalidArgumentError


def record(side: str, value: float, **changed: Any) -> dict[str, Any]:
    """Make the record of one measured value."""
    made = {
        "question": "timer_cycle",
        "side": side,
        "case": "pending=10",
        "size": 10.0,
        "metric": "ns_per_operation",
    }
    return {**made, "unit": "ns", "round": 0, "value": value, **changed}


def results_folder(folder: Path, records: list[dict[str, Any]]) -> Path:
    """Make a results folder with these records."""
    folder.mkdir(exist_ok=True)
    (folder / "measurements.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    return folder


def test_summary_has_the_median_of_the_rounds(spark: SparkSession, tmp_path: Path) -> None:
    records = [record("ours", value, round=number) for number, value in enumerate((5.0, 1.0, 3.0))]
    folder = results_folder(tmp_path / "bench", [*records, record("theirs", 7.0)])
    rows = {row["side"]: row for row in summarize(spark, folder).collect()}
    assert [rows["ours"][name] for name in ("median", "min", "max", "rounds")] == [
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
def test_invalid_record_is_refused(spark: SparkSession, tmp_path: Path, line: str) -> None:
    folder = results_folder(tmp_path / "bench", [record("ours", 1.0)])
    with (folder / "measurements.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InvalidArgumentError, match="one JSON record on each line"):
        read_measurements(spark, folder)


def test_folder_without_measurements_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"a folder with measurements.jsonl, got '.*nothing'"
    ):
        summarize(spark, tmp_path / "nothing")


def test_section_has_a_line_for_each_case_and_a_column_for_each_side(
    spark: SparkSession, tmp_path: Path
) -> None:
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
    folder = results_folder(tmp_path / "bench", records)
    (folder / "not_measured.jsonl").write_text(
        json.dumps(
            {
                "question": "memory",
                "side": "trio",
                "case": "x",
                "reason": "<none>",
                "failed": True,
            }
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
    assert "<svg" in cycle["chart"].narrow
    assert memory["chart"] is None
    page = write_report([], tmp_path / "report.html", benchmarks=[section]).read_text()
    assert "FAILED: &lt;none&gt;" in page
    assert "Benchmarks: bench" in page
    assert "How requests waited" not in page


def test_published_figure_has_both_cases() -> None:
    rows = [
        {
            "side": side,
            "case": f"case={case} rate={rate} count=9",
            "size": float(rate),
            "metric": "enqueue_rate",
            "position": 0,
        }
        | {"median": 10.0, "min": 9.0, "max": 12.0}
        for side in ("request_purgatory", "kafka", "somebody else")
        for case in ("low", "high")
        for rate in (25_000, 100_000, 0)
    ]
    svg = published_figure(rows, "enqueue_rate", "enqueued a second", "title")
    words = [
        "".join(text.itertext())
        for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"25k", "100k", "no limit", "kafka", "somebody else", "target"} <= set(words)
    left_out = [
        rows[0] | {"case": f"case=low rate=0 count=9 {parameter}", "size": 0.0, "median": 5.0}
        for parameter in ("heap_mb=192", "late_answers=1")
    ]
    with_left_out = published_figure(rows + left_out, "enqueue_rate", "enqueued a second", "title")
    # A marker for each point; the rest of an SVG text has random names.
    assert with_left_out.count("<use") == svg.count("<use")


def test_curve_has_a_line_for_each_side() -> None:
    rows = [
        {"side": side, "size": size, "median": 5.0, "min": 4.0, "max": 6.0, "position": 1}
        for side in "ab"
        for size in (1, 10)
    ]
    assert ElementTree.fromstring(curve(rows, "ns", "title", "pending")).tag.endswith("svg")


def test_published_benchmark_is_measured_and_printed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        record(
            side,
            value,
            question="published",
            metric=metric,
            unit=published_run.METRICS[metric],
            case=f"case=low rate={rate} count=300",
            size=float(rate),
        )
        for rate in (50_000, 0)
        for side, design in (("ours", "wheel"), ("theirs", "legacy"))
        for metric, value in measure(
            BenchmarkRun(case="low", design=design, rate=rate, count=300)
        ).items()
    ]
    section = benchmark_section(spark, results_folder(tmp_path / "out", records))
    assert section["questions"][0]["sides"] == ["ours", "theirs"]
    titles = [title for title, _ in section["figures"]]
    assert titles == [title for _, _, title in PUBLISHED_CHARTS]
    print_published(Console(width=200), section)
    printed = capsys.readouterr().out
    assert "enqueue_rate" in printed
    assert "case=low rate=0 count=300" in printed
