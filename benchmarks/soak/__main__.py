"""The command `python -m benchmarks.soak`.

Starts the processes, shows how far they came, writes the result.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.soak import result
from benchmarks.soak.plan import Plan, can_interrupt, sample_interval_s
from benchmarks.soak.process import build, command

_WIDTH_OF_FILES = 200


class Process:
    """A process of the campaign, and the thread that reads its lines."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.progress: dict[str, Any] = {"operations": 0, "rounds": 0, "rss_kb": 0, "seconds": 0.0}
        self.result: dict[str, Any] | None = None
        self._process = subprocess.Popen(command(plan), stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            fields = json.loads(line)
            if fields.pop("kind") == "result":
                self.result = fields
            self.progress = fields
        self._process.wait()

    def end(self) -> None:
        """Kill it, if it still runs."""
        self._process.kill()
        self._process.wait()

    def failure(self) -> str:
        """Return why there is no result."""
        return f"seed {self.plan.seed}: the process ended with exit code {self._process.returncode}, after {self.progress}"


def main(arguments: list[str] | None = None) -> int:
    """Run.

    Exit code 0, or 1 if an operation has not ended as it should have, or the memory grew.
    """
    options = _options(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH_OF_FILES)
    plan = Plan(
        seed=options.seed,
        seconds=options.minutes * 60,
        operations=options.operations,
        forks=options.forks,
        signals=can_interrupt(),
        sample_s=sample_interval_s(options.minutes * 60),
    )
    on = build()
    console.print(escape(f"seed {plan.seed}; {on}; {options.processes} processes; {asdict(plan)}"))
    processes = [
        Process(plan.for_process(number, options.processes)) for number in range(options.processes)
    ]
    try:
        _watch(processes, plan, console)
    finally:
        for process in processes:
            process.end()
    failures = [process.failure() for process in processes if process.result is None]
    found = [process.result for process in processes if process.result is not None]
    if found:
        combined = result.combine(found)
        combined["problems"] += failures
        path = options.out / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}.json"
        result.write(combined | {"seed": plan.seed}, path)
        result.show(combined, console)
        console.print(f"written to {path}")
        failures = combined["problems"]
    for failure in failures:
        console.print(f"[red]failed:[/] {escape(failure)}")
    if failures:
        console.print(f"the same choices again: make soak SEED={plan.seed}")
    return 1 if failures else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak",
        description="Every operation of the API at random; every end counted.",
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long; %(default)s")
    parser.add_argument("--operations", type=int, help="stop after so many ended operations")
    parser.add_argument("--seed", type=int, help="of all choices; drawn unless given")
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        help="side by side, each with a seed of its own; %(default)s",
    )
    parser.add_argument(
        "--forks",
        action=argparse.BooleanOptionalAction,
        default=hasattr(os, "fork"),
        help="fork, too: a child must find the purgatories empty and usable; the default where there are forks",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/soak"), help="directory of the result; %(default)s"
    )
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(2**32)
    if options.processes < 1:
        parser.error(f"--processes must be at least 1, got {options.processes}")
    return options


def _watch(processes: list[Process], plan: Plan, console: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    printed = 0.0
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task("starting", total=1.0)
        while any(process.thread.is_alive() for process in processes):
            for process in processes:
                process.thread.join(0.5)
            done = [process.progress for process in processes]
            seconds = max(one["seconds"] for one in done)
            operations = sum(one["operations"] for one in done)
            rss_mb = sum(one["rss_kb"] for one in done) / 1024
            line = f"{operations:,} operations, {operations / max(seconds, 1):,.0f}/s, RSS {rss_mb:,.0f} MB"
            of_operations = operations / plan.operations if plan.operations else 0.0
            progress.update(
                bar, description=line, completed=max(seconds / plan.seconds, of_operations)
            )
            if not console.is_terminal and seconds - printed >= plan.sample_s:
                printed = seconds
                console.print(f"{seconds:6.0f} s: {line}")


if __name__ == "__main__":
    sys.exit(main())
