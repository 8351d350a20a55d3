"""The command `purgatory`: which commands there are, and where they are.

A command's module is imported when the command is called: `--help` takes 0.2 s without Spark and
Arrow, and `quick` needs no Spark. This module is beside the package `purgatory_spark`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cyclopts import App, Group

from purgatory_command_line.command import NO_NEGATIVES
from purgatory_command_line.entry_point import run
from purgatory_command_line.help_format import HelpFormatter
from purgatory_command_line.version import version_text

_TRACES = Group("Traces and analysis", sort_key=1)
_STREAM = Group("Stream", sort_key=2)
_SIMULATION = Group("Simulation", sort_key=3)
_CLUSTER = Group("Spark cluster", sort_key=6)
_PROGRAM = Group("Program", sort_key=9)

_EPILOGUE = (
    "`purgatory COMMAND --help` describes a command.\n\n"
    "Exit codes: 0 done, 1 failed, 2 bad input, 3 replay and batch outcomes differ, "
    "4 something to install is missing, 130 and 143 stopped by SIGINT and SIGTERM."
)


@dataclass(frozen=True)
class CommandEntry:
    """A command in the table; `target` is a module in `purgatory_spark._cli` and its function."""

    name: str
    target: str
    group: Group
    help: str
    example: str


COMMANDS = (
    CommandEntry(
        "run",
        "analysis:run_all",
        _TRACES,
        "Make or import traces, replay them, analyze them, and write one report.",
        "run --trace spans/ --timeout-ms 1000 --timeouts 100,500,1000,5000",
    ),
    CommandEntry(
        "quick",
        "quick:quick",
        _TRACES,
        "Say which timeout to choose, without Java and Spark.",
        "quick calls.csv --map arrived_at=start --map service_ms=took --time-unit ms",
    ),
    CommandEntry(
        "workload",
        "traces:make_workload",
        _TRACES,
        "Make a published workload as a trace.",
        "workload --case high --requests 100000 --out high",
    ),
    CommandEntry(
        "import",
        "traces:import_source",
        _TRACES,
        "Import a recorded trace: make requests and events of it.",
        "import calls.csv --map arrived_at=start --map ended_at=end --time-unit ms --out calls",
    ),
    CommandEntry(
        "replay",
        "traces:replay",
        _TRACES,
        "Replay a trace through a real purgatory, on virtual time.",
        "replay high --design legacy --out high.legacy",
    ),
    CommandEntry(
        "analyze",
        "analysis:analyze_trace",
        _TRACES,
        "Compute a trace's outcomes, compare replays with them, and what other timeouts would do.",
        "analyze high --replay high.wheel --replay high.legacy --out high.analysis",
    ),
    CommandEntry(
        "report",
        "analysis:report",
        _TRACES,
        "Write one HTML file with the figures and tables of analyses.",
        "report high.analysis low.analysis --out report.html",
    ),
    CommandEntry(
        "stream",
        "stream:stream",
        _STREAM,
        "Compute how requests end while they arrive, with a streaming job.",
        "stream low/requests low/events --drain --out low.stream --checkpoint low.checkpoint",
    ),
    CommandEntry(
        "stream-state",
        "stream_state:stream_state",
        _STREAM,
        "Show what the checkpoint of a stream holds, without running the stream.",
        "stream-state low.checkpoint --json",
    ),
    CommandEntry(
        "simulate",
        "simulation:simulate",
        _SIMULATION,
        "Simulate a cluster larger than the machine, and extrapolate to a target load.",
        "simulate --hosts 1000 --requests-per-host 100000 --target-per-day 1e12 --out simulated",
    ),
    CommandEntry(
        "archive",
        "archive:archive",
        _CLUSTER,
        "Pack the Python environment that the machines of a Spark cluster need.",
        "archive dist/purgatory.tar.gz",
    ),
)


def make_app() -> App:
    app = App(
        name="purgatory",
        help="Make, import, replay and analyze request traces.",
        help_epilogue=_EPILOGUE,
        version=version_text("purgatory-spark"),
        version_flags=["--version", "-V"],
        help_formatter=HelpFormatter(),
        group_commands=_PROGRAM,
        default_parameter=NO_NEGATIVES,
    )
    for position, entry in enumerate(COMMANDS):
        app.command(
            f"purgatory_spark._cli.{entry.target}",
            name=entry.name,
            group=entry.group,
            help=entry.help,
            sort_key=position,
            help_epilogue=f"Example: `purgatory {entry.example}`",
        )
    app.register_install_completion_command(
        help="Install completion for the current shell.", group=_PROGRAM, help_epilogue=""
    )
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the arguments, this process' unless given, and return one of `ExitCode`."""
    return run(make_app(), arguments)


if __name__ == "__main__":
    sys.exit(main())
