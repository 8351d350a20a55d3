"""Medians and ratios of measurements, and the tables that show them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from rich.table import Table

from benchmarks import peers
from benchmarks.measurement import Measurement, NotMeasured
from benchmarks.question import Case, Question, title

#: (question, side, case, metric) -> the median over the rounds.
Medians = dict[tuple[str, str, str, str], float]


def medians(measurements: Iterable[Measurement]) -> Medians:
    """Return the median of each side, case and metric over the rounds."""
    values = defaultdict(list)
    for one in measurements:
        values[one.question, one.side, one.case, one.metric].append(one.value)
    return {key: median(found) for key, found in values.items()}


def ratio(value: float, ours: float | None) -> float | None:
    """Return a side's value divided by ours.

    Returns:
        None if our value is missing, or one of them is not above 0.
    """
    return value / ours if ours is not None and ours > 0 and value > 0 else None


def question_table(question: Question, cases: list[Case], found: Medians, sides: set[str]) -> Table:
    """Return a table with a row for each case and metric.

    Columns are the sides, with median and ratio to request_purgatory.
    """
    name = question.QUESTION
    chosen = [side for side in question.SIDES if side in sides]
    metrics = [
        metric
        for metric in question.METRICS
        if any(key[0] == name and key[3] == metric for key in found)
    ]
    table = Table(
        title=f"{name}: {title(question)} (x: times request_purgatory)", title_justify="left"
    )
    table.add_column("case")
    table.add_column("metric")
    for side in chosen:
        table.add_column(side, justify="right")
    for case in cases:
        for metric in metrics:
            values = [found.get((name, side, case.label, metric)) for side in chosen]
            if any(value is not None for value in values):
                ours = found.get((name, peers.OURS, case.label, metric))
                table.add_row(case.label, metric, *(_cell(value, ours) for value in values))
    return table


def _cell(value: float | None, ours: float | None) -> str:
    if value is None:
        return "-"
    times = ratio(value, ours)
    return number(value) if times is None else f"{number(value)}\n[dim]x {times:.2f}[/]"


def number(value: float) -> str:
    """Format a number with three or more significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def not_measured_lines(not_measured: Iterable[NotMeasured], *, failed: bool) -> list[str]:
    """Return a text for each reason, with the sides, questions and cases that it applies to.

    Args:
        not_measured: Cases without a value.
        failed: Whether to include failed cases or skipped ones.
    """
    found: dict[str, dict[tuple[str, str], list[str]]] = {}
    for one in not_measured:
        if one.failed == failed:
            found.setdefault(one.reason, {}).setdefault((one.question, one.side), []).append(
                one.case
            )
    lines = []
    for reason, cases in found.items():
        sides: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (question, side), labels in cases.items():
            sides[question, "; ".join(labels)].append(side)
        where = "".join(
            f"\n    {question} ({labels}): {', '.join(names)}"
            for (question, labels), names in sides.items()
        )
        lines.append(reason + where)
    return lines
