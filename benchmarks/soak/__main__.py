"""The command `python -m benchmarks.soak`: runs a campaign and writes its result."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
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

_FILE_WIDTH = 200
#: Rounds take a few seconds; a process that hangs says so by itself, and has no result.
_ROUND_TIMEOUT_S = 120.0


class Process:
    """A process of the campaign, with a thread that reads its output.

    Attributes:
        plan: The process's plan.
        progress: The last reported progress.
        result: The result; None until the process reports one.
        thread: Ends with the process.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.progress: dict[str, Any] = {"operations": 0, "rounds": 0, "rss_kb": 0, "seconds": 0.0}
        self.result: dict[str, Any] | None = None
        # In a session of its own, as Ctrl-C is for the command alone.
        self._process = subprocess.Popen(
            command(plan), stdout=subprocess.PIPE, text=True, start_new_session=True
        )
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

    def stop(self) -> None:
        """Have the process end after its present round, and report its result."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill the process if it still runs."""
        self._process.kill()
        self._process.wait()

    def failure(self) -> str:
        """Return why the process has no result."""
        code = self._process.returncode
        return (
            f"seed {self.plan.seed}: the process ended with exit code {code}, after {self.progress}"
        )


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign.

    Args:
        arguments: The command line; that of this process if None.

    Returns:
        The exit code: 1 if a problem was found, else 0.
    """
    options = _options(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
    plan = Plan(
        seed=options.seed,
        seconds=options.minutes * 60,
        operations=options.operations,
        forks=options.forks,
        signals=can_interrupt(),
        sample_s=sample_interval_s(options.minutes * 60),
    )
    console.print(
        escape(f"seed {plan.seed}; {build()}; {options.processes} processes; {asdict(plan)}")
    )
    processes = [
        Process(plan.for_process(number, options.processes)) for number in range(options.processes)
    ]
    try:
        try:
            _watch(processes, plan, console)
        except KeyboardInterrupt:
            console.print("stopping after the present round")
            for process in processes:
                process.stop()
            for process in processes:
                process.thread.join(_ROUND_TIMEOUT_S)
    finally:
        for process in processes:
            process.kill()
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
        console.print(f"to repeat the same choices: make soak SEED={plan.seed}")
    return 1 if failures else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak",
        description="Random operations of the whole API, with a check of how each one ended.",
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="duration; %(default)s")
    parser.add_argument("--operations", type=int, help="stop after this number of ended operations")
    parser.add_argument("--seed", type=int, help="seed of all choices; random if not given")
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        help="parallel processes, each with its own seed; %(default)s",
    )
    parser.add_argument(
        "--forks",
        action=argparse.BooleanOptionalAction,
        default=hasattr(os, "fork"),
        help="fork, and use the inherited objects in the child; the default where fork exists",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/soak"), help="folder of the result; %(default)s"
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
            # No join: Python takes a thread for ended whose join Ctrl-C has interrupted.
            time.sleep(0.2)
            reports = [process.progress for process in processes]
            seconds = max(report["seconds"] for report in reports)
            operations = sum(report["operations"] for report in reports)
            rss_mb = sum(report["rss_kb"] for report in reports) / 1024
            rate = operations / max(seconds, 1)
            line = f"{operations:,} operations, {rate:,.0f}/s, RSS {rss_mb:,.0f} MB"
            operations_share = operations / plan.operations if plan.operations else 0.0
            progress.update(
                bar, description=line, completed=max(seconds / plan.seconds, operations_share)
            )
            if not console.is_terminal and seconds - printed >= plan.sample_s:
                printed = seconds
                console.print(f"{seconds:6.0f} s: {line}")


if __name__ == "__main__":
    sys.exit(main())
