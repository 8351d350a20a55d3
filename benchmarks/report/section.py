"""A report's section about benchmark results: charts, tables and the machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.report import charts, results
from benchmarks.report.results import PUBLISHED, Row
from benchmarks.report.svg import page_chart
from purgatory_spark._analysis.units import format_number

#: Charts of the published benchmark: metric, axis label, title.
PUBLISHED_CHARTS = (
    ("enqueue_rate", "enqueued a second", "Enqueue rate against target rate"),
    ("cpu_seconds_per_million", "CPU seconds per million", "CPU time per million requests"),
    ("gc_seconds", "seconds per million", "Collector's time per million requests"),
)
#: Questions that have a chart of medians against `size`: metric, axis label.
_CURVES = {
    "timer_cycle": ("ns_per_operation", "pending timers"),
    "growth": ("ns_per_operation", "pending"),
    "purgatory_expire": ("ns_per_operation", "pending"),
}


def benchmark_section(spark: SparkSession, folder: Path) -> Row:
    """Summarize a benchmark's results for `write_report`.

    Args:
        spark: The session.
        folder: A results folder, as described in `results`.

    Returns:
        The template's values for one section. The number of collected rows depends on the
        questions, sides and cases, and not on the rounds.

    Raises:
        InvalidArgumentError: The folder has no measurements, or a line is not a valid record.
    """
    rows = [row.asDict() for row in results.summarize(spark, folder).orderBy("position").collect()]
    by_question: dict[str, list[Row]] = {}
    for row in rows:
        by_question.setdefault(row["question"], []).append(row)
    figures = [
        (
            title,
            page_chart(
                partial(charts.published_figure, by_question[PUBLISHED], metric, label, title)
            ),
        )
        for metric, label, title in (PUBLISHED_CHARTS if PUBLISHED in by_question else ())
    ]
    return {
        "name": folder.name,
        "figures": figures,
        "questions": [_question(name, found) for name, found in by_question.items()],
        "targets": results.read_targets(folder),
        "machine": results.read_machine(folder),
        "not_measured": results.read_not_measured(folder),
    }


def _question(name: str, rows: list[Row]) -> Row:
    """Return a question's table, a line for each metric and case with a value for each side."""
    sides = list(dict.fromkeys(row["side"] for row in rows))
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    found = {(row["metric"], row["case"], row["side"]): row for row in rows}
    cases = list(dict.fromkeys((row["metric"], row["unit"], row["case"]) for row in rows))
    lines = [
        {
            "metric": metric,
            "unit": unit,
            "case": case,
            "values": [found.get((metric, case, side)) for side in sides],
        }
        for metric, unit, case in sorted(cases, key=lambda line: metrics.index(line[0]))
    ]
    chart = None
    if name in _CURVES:
        metric, label = _CURVES[name]
        chosen = [row for row in rows if row["metric"] == metric]
        if len({row["size"] for row in chosen}) > 1:
            chart = page_chart(partial(charts.curve, chosen, "ns", name, label))
    return {
        "name": name,
        "sides": sides,
        "lines": lines,
        "chart": chart,
        "rounds": max(row["rounds"] for row in rows),
    }


def print_published(console: Console, section: Row) -> None:
    """Print the enqueue rates and CPU times of the published benchmark.

    Args:
        console: Where to print.
        section: A section from `benchmark_section`.
    """
    for question in section["questions"]:
        if question["name"] != PUBLISHED:
            continue
        table = Table(title="published benchmark", title_justify="left")
        for column in ("metric", "case", *question["sides"]):
            table.add_column(column, justify="left" if column in ("metric", "case") else "right")
        for line in question["lines"]:
            if line["metric"] in ("enqueue_rate", "cpu_seconds_per_million"):
                values = [
                    format_number(value["median"]) if value else "-" for value in line["values"]
                ]
                table.add_row(f"{line['metric']}, {line['unit']}", line["case"], *values)
        console.print(table)
