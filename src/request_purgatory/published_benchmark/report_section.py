"""The published benchmark as a command, and a report's section about any benchmark's results."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from markupsafe import Markup
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from request_purgatory import __compiled__
from request_purgatory.pipeline.traces.output_folder import write_json
from request_purgatory.published_benchmark import charts, results, run
from request_purgatory.published_benchmark.results import Row

#: The two designs under the names that reports have for them.
SIDES = {"wheel": "request_purgatory", "legacy": "request_purgatory (0.8 design)"}
QUESTION = "published"
RATES = (25_000, 50_000, 100_000, 200_000, 400_000, 0)

_RUN_TIMEOUT_S = 900
#: What the published figures show.
_FIGURES = (
    ("enqueue_rate", "enqueued a second", "Enqueue rate against target rate"),
    ("cpu_seconds_per_million", "CPU seconds per million", "CPU time per million requests"),
    ("gc_seconds", "seconds per million", "Collector's time per million requests"),
)
#: Questions whose medians make a curve: the metric, and what the axis says.
_CURVES = {
    "timer_cycle": ("ns_per_operation", "pending timers"),
    "growth": ("ns_per_operation", "pending"),
    "purgatory_expire": ("ns_per_operation", "pending"),
}


@dataclass(frozen=True)
class BenchPlan:
    """What `purgatory bench` runs.

    Attributes:
        cases, designs, rates: every combination is a run; rate 0 is without a limit.
        requests: in a run without a limit, and at most in any other.
        seconds: about how long a run at a rate takes.
        rounds: how often all of it is run.
    """

    cases: Sequence[str] = tuple(run.CASES)
    designs: Sequence[str] = tuple(run.DESIGNS)
    rates: Sequence[int] = RATES
    requests: int = 1_000_000
    seconds: float = 4.0
    rounds: int = 3

    def loads(self) -> list[run.Load]:
        """One round's runs; those that are compared follow one another."""
        return [
            run.Load(case=case, design=design, rate=rate, count=self._count(rate))
            for case in self.cases
            for rate in self.rates
            for design in self.designs
        ]

    def _count(self, rate: int) -> int:
        return min(self.requests, max(1, int(rate * self.seconds))) if rate else self.requests


def run_published(plan: BenchPlan, target: Path, console: Console) -> None:
    """Run the plan, each run in a process of its own, and write the records into the folder `target`.

    Raises:
        RuntimeError: a run failed; what it printed.
    """
    write_json(target / results.MACHINE_FILE, _machine(plan))
    loads = plan.loads()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with (
        (target / results.MEASUREMENTS_FILE).open("w", encoding="utf-8") as file,
        Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        ) as progress,
    ):
        bar = progress.add_task("", total=plan.rounds * len(loads))
        for number in range(plan.rounds):
            for load in loads if number % 2 == 0 else loads[::-1]:
                progress.update(
                    bar, description=f"{load.design}, {load.case}, {load.rate or 'unlimited'}/s"
                )
                for metric, value in _measure(load).items():
                    file.write(json.dumps(_record(load, metric, value, number)) + "\n")
                file.flush()
                progress.advance(bar)


def _measure(load: run.Load) -> dict[str, float]:
    arguments = [f"{name}={value}" for name, value in asdict(load).items()]
    command = [sys.executable, "-m", "request_purgatory.published_benchmark.run", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_RUN_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command[1:])} failed with exit code {done.returncode}: {done.stderr.strip()[-500:]}"
        )
    metrics: dict[str, float] = json.loads(done.stdout)
    return metrics


def _record(load: run.Load, metric: str, value: float, number: int) -> Row:
    return {
        "question": QUESTION,
        "side": SIDES[load.design],
        "case": f"case={load.case} rate={load.rate} count={load.count}",
        "size": float(load.rate),
        "metric": metric,
        "unit": run.METRICS[metric],
        "round": number,
        "value": float(value),
    }


def _machine(plan: BenchPlan) -> Row:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "request_purgatory": version("request-purgatory"),
        "compiled": __compiled__,
        "rounds": plan.rounds,
    }


# -- the report


def benchmark_section(spark: SparkSession, folder: Path) -> Row:
    """Everything a report says of a benchmark's folder: charts, a table a question, targets, machine, and what was left out.

    What is collected here has a row for each side of each case, however often it was measured.
    """
    rows = [row.asDict() for row in results.summarize(spark, folder).orderBy("position").collect()]
    by_question: dict[str, list[Row]] = {}
    for row in rows:
        by_question.setdefault(row["question"], []).append(row)
    figures = [
        (title, Markup(charts.published_figure(by_question[QUESTION], metric, label, title)))
        for metric, label, title in (_FIGURES if QUESTION in by_question else ())
    ]
    return {
        "name": folder.name,
        "figures": figures,
        "questions": [_question(name, found) for name, found in by_question.items()],
        "targets": results.targets(folder),
        "machine": results.machine(folder),
        "left_out": results.not_measured(folder),
    }


def _question(name: str, rows: list[Row]) -> Row:
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
    chart = ""
    if name in _CURVES:
        metric, label = _CURVES[name]
        chosen = [row for row in rows if row["metric"] == metric]
        if len({row["size"] for row in chosen}) > 1:
            chart = Markup(charts.curve(chosen, "ns", name, label))
    return {
        "name": name,
        "sides": sides,
        "lines": lines,
        "chart": chart,
        "rounds": max(row["rounds"] for row in rows),
    }


def print_published(console: Console, section: Row) -> None:
    """The enqueue rates of a section on the console."""
    for question in section["questions"]:
        if question["name"] != QUESTION:
            continue
        table = Table(title="published benchmark", title_justify="left")
        for column in ("metric", "case", *question["sides"]):
            table.add_column(column, justify="left" if column in ("metric", "case") else "right")
        for line in question["lines"]:
            if line["metric"] in ("enqueue_rate", "cpu_seconds_per_million"):
                values = [figure(value["median"]) if value else "-" for value in line["values"]]
                table.add_row(f"{line['metric']}, {line['unit']}", line["case"], *values)
        console.print(table)


def figure(value: float) -> str:
    """A number with three digits that mean something."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2g}"
