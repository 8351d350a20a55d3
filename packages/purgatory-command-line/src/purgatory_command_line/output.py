"""What a command prints: progress and tables for people, or its result as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from purgatory_command_line.settings_options import FieldsOf

#: Columns where standard output is a file or a pipe, which has no width of its own.
_PIPE_WIDTH = 120


@dataclass(frozen=True)
class Output:
    """How a command reports what it does: options that every command has.

    Attributes:
        verbose: Log more, and show the traceback of a failure.
        json: Print the result as JSON on standard output, and all else on standard error.
    """

    verbose: bool = False
    json: bool = False

    @cached_property
    def console(self) -> Console:
        return _open_console(stderr=self.json)

    def print_result(self, result: object, *, indent: int | None = 2) -> None:
        """Print a result as a JSON document, if `--json` asked for it.

        Values that JSON has not, such as times, are written as text. Without an indent it is one
        line, for a program that goes on.
        """
        if self.json:
            print(json.dumps(result, indent=indent, ensure_ascii=False, default=str), flush=True)


#: The annotation of a command's parameter for its output.
OutputOptions = Annotated[
    Output,
    FieldsOf(Output, heading="Output", changes={"verbose": Parameter(alias="-v")}),
]


def _open_console(*, stderr: bool = False) -> Console:
    """Return a console on standard output, or on standard error.

    rich respects NO_COLOR, FORCE_COLOR and TERM.
    """
    stream = sys.stderr if stderr else sys.stdout
    return Console(highlight=False, stderr=stderr, width=None if stream.isatty() else _PIPE_WIDTH)
