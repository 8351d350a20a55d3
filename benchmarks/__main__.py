"""Run the benchmark: `python -m benchmarks`.

The command runs the questions, writes their measurements and prints tables.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import machine, peers, question
from benchmarks.measurement import JvmPeers, Measurement, Runner, Step
from benchmarks.question import Question
from benchmarks.summary import medians, not_measured_lines, question_table
from benchmarks.targets import compare, targets_table

_ROUNDS = 3
_QUICK_ROUNDS = 2
#: Columns where the output is not a terminal: ratios and case names need them.
_FILE_WIDTH = 200
#: Independent of `--out`, so that another output directory needs no new build.
_JVM_TARGET = Path(__file__).resolve().parent.parent / "build" / "jvm-peers"


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark.

    Returns:
        The exit code: 0, or 1 if a measurement failed.
    """
    options = _options(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
    questions = [question.load(name) for name in options.questions or question.NAMES]
    wanted = {side for asked in questions for side in asked.SIDES if side in options.sides}
    jvm = _build_jvm_peers(console) if wanted & set(peers.JVM) else "not requested"
    rounds = options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS)

    options.out.mkdir(parents=True, exist_ok=True)
    described = machine.describe({} if isinstance(jvm, str) else jvm.versions)
    described |= {"rounds": rounds, "quick": options.quick}
    (options.out / "machine.json").write_text(json.dumps(described, indent=2) + "\n")

    runner = Runner(jvm)
    steps = runner.plan(questions, sides=wanted, rounds=rounds, quick=options.quick)
    measurements = _run(runner, steps, options.out / "measurements.jsonl", console)
    lines = [one.to_json() for one in runner.not_measured]
    (options.out / "not_measured.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return _report(questions, measurements, runner, wanted, options, console)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Benchmarks of request-purgatory and its peers."
    )
    parser.add_argument(
        "questions",
        nargs="*",
        metavar="question",
        help=f"one or more of {', '.join(question.NAMES)}; default: all",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"small sizes and {_QUICK_ROUNDS} rounds, to check that everything works",
    )
    parser.add_argument(
        "--rounds", type=_positive, help=f"processes per side and case; default: {_ROUNDS}"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/bench"),
        help="output directory; default: %(default)s",
    )
    parser.add_argument(
        "--sides",
        type=_sides,
        default=list(peers.ALL),
        help=f"comma-separated list of sides; known: {', '.join(peers.ALL)}",
    )
    options = parser.parse_args(arguments)
    for name in options.questions:
        if name not in question.NAMES:
            parser.error(f"unknown question {name!r}; known: {', '.join(question.NAMES)}")
    return options


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def _sides(text: str) -> list[str]:
    sides = [side.strip() for side in text.split(",")]
    for side in sides:
        if side not in peers.ALL:
            raise argparse.ArgumentTypeError(
                f"unknown side {side!r}; known: {', '.join(peers.ALL)}"
            )
    return sides


def _build_jvm_peers(console: Console) -> JvmPeers | str:
    """Build the JVM peers if necessary.

    The other sides are measured even if the build fails.

    Returns:
        The peers, or the reason why they are unavailable.
    """
    try:
        build = importlib.import_module("benchmarks.jvm.build")
    except ImportError as error:
        return f"cannot import the harness for the JVM: {error}"
    with console.status("building the JVM peers"):
        try:
            built: JvmPeers = build.build(_JVM_TARGET)
        except build.PeerUnavailableError as error:
            return str(error)
    return built


def _run(runner: Runner, steps: list[Step], path: Path, console: Console) -> list[Measurement]:
    """Run all steps.

    Each value is written as soon as it is measured, so that an interrupted run keeps its values.
    """
    measurements = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with (
        path.open("w") as file,
        Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        ) as progress,
    ):
        bar = progress.add_task("", total=len(steps))
        for step in steps:
            progress.update(
                bar, description=escape(f"{step.question.QUESTION} {step.case.label}, {step.side}")
            )
            for measurement in runner.run(step):
                measurements.append(measurement)
                file.write(measurement.to_json() + "\n")
            file.flush()
            progress.advance(bar)
    return measurements


def _report(
    questions: list[Question],
    measurements: list[Measurement],
    runner: Runner,
    sides: set[str],
    options: argparse.Namespace,
    console: Console,
) -> int:
    found = medians(measurements)
    rows = [
        row for row in compare(found) if row["question"] in {asked.QUESTION for asked in questions}
    ]
    (options.out / "targets.json").write_text(json.dumps(rows, indent=2) + "\n")
    for asked in questions:
        console.print(question_table(asked, asked.cases(options.quick), found, sides))
    console.print(targets_table(rows))
    for line in not_measured_lines(runner.not_measured, failed=False):
        console.print(f"[dim]left out:[/] {escape(line)}")
    failures = not_measured_lines(runner.not_measured, failed=True)
    for line in failures:
        console.print(f"[red]failed:[/] {escape(line)}")
    console.print(escape(f"{len(measurements)} measurements: {options.out / 'measurements.jsonl'}"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
