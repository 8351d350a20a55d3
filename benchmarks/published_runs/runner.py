"""The published benchmark as a series of runs, each in its own process."""

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

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from request_purgatory import __compiled__
from request_purgatory.pipeline.output_folder import write_json
from request_purgatory.published_benchmark import results
from request_purgatory.published_benchmark.results import PUBLISHED, Row
from request_purgatory.published_benchmark.run import CASES, DESIGNS, METRICS, BenchmarkRun

#: The names of the two designs in results.
SIDES = {"wheel": "request_purgatory", "legacy": "request_purgatory (0.8 design)"}
#: Target rates in requests a second; 0 is no limit.
RATES = (25_000, 50_000, 100_000, 200_000, 400_000, 0)

_RUN_TIMEOUT_S = 900


@dataclass(frozen=True)
class BenchmarkPlan:
    """The runs of `purgatory bench`: every combination of case, rate and design, in each round.

    Attributes:
        cases: "low" and "high" latencies, or one of them.
        designs: "wheel" for timing wheels and "legacy" for the design of Kafka 0.8, or one of them.
        rates: Target rates in requests per second; 0 for no limit.
        requests: Number of requests in a run without a limit, and the maximum in others.
        seconds: Approximate duration of a run at a limited rate.
        rounds: Number of times that each run is repeated.
    """

    cases: Sequence[str] = tuple(CASES)
    designs: Sequence[str] = tuple(DESIGNS)
    rates: Sequence[int] = RATES
    requests: int = 1_000_000
    seconds: float = 4.0
    rounds: int = 3

    def runs(self) -> list[BenchmarkRun]:
        """Return one round's runs. Runs that are compared with each other are neighbours."""
        return [
            BenchmarkRun(case=case, design=design, rate=rate, count=self._count(rate))
            for case in self.cases
            for rate in self.rates
            for design in self.designs
        ]

    def _count(self, rate: int) -> int:
        return min(self.requests, max(1, int(rate * self.seconds))) if rate else self.requests


def run_published(plan: BenchmarkPlan, target: Path, console: Console) -> None:
    """Carry out a plan, each run in its own process, and write the measurements.

    Every second round has the reverse order, so that no run always follows the same one.

    Args:
        plan: The runs.
        target: An existing folder; `results.MACHINE_FILE` and `results.MEASUREMENTS_FILE` are
            written into it.
        console: Shows the progress if it is a terminal.

    Raises:
        RuntimeError: A run failed; the message has its error output.
    """
    write_json(target / results.MACHINE_FILE, _machine(plan))
    runs = plan.runs()
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
        bar = progress.add_task("", total=plan.rounds * len(runs))
        for number in range(plan.rounds):
            for run in runs if number % 2 == 0 else runs[::-1]:
                rate = f"{run.rate}/s" if run.rate else "no rate limit"
                progress.update(bar, description=f"{run.design}, {run.case}, {rate}")
                for metric, value in _measure(run).items():
                    file.write(json.dumps(_record(run, metric, value, number)) + "\n")
                file.flush()
                progress.advance(bar)


def _measure(run: BenchmarkRun) -> dict[str, float]:
    arguments = [f"{name}={value}" for name, value in asdict(run).items()]
    command = [sys.executable, "-m", "request_purgatory.published_benchmark.run", *arguments]
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=_RUN_TIMEOUT_S, check=False
    )
    if completed.returncode:
        raise RuntimeError(
            f"{' '.join(command[1:])} failed with exit code {completed.returncode}: "
            f"{completed.stderr.strip()[-500:]}"
        )
    metrics: dict[str, float] = json.loads(completed.stdout)
    return metrics


def _record(run: BenchmarkRun, metric: str, value: float, number: int) -> Row:
    return {
        "question": PUBLISHED,
        "side": SIDES[run.design],
        "case": f"case={run.case} rate={run.rate} count={run.count}",
        "size": float(run.rate),
        "metric": metric,
        "unit": METRICS[metric],
        "round": number,
        "value": float(value),
    }


def _machine(plan: BenchmarkPlan) -> Row:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "request_purgatory": version("request-purgatory"),
        "compiled": __compiled__,
        "rounds": plan.rounds,
    }
