"""Running a command line: usage errors, and what goes wrong before a command begins."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, UnknownCommandError
from cyclopts.completion import ShellDetectionError
from rich.console import Console

from purgatory_command_line.command import PROGRAM, name_missing_package, print_error
from purgatory_command_line.exit_codes import ExitCode


def run(app: App, arguments: Sequence[str] | None = None) -> int:
    """Run a command line, this process' unless given, and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    PROGRAM.set(app.name[0])
    try:
        if _print_missing_command(app, arguments):
            return ExitCode.BAD_INPUT
        code = app(arguments, print_error=False, exit_on_error=False, result_action="return_value")
    except CycloptsError as error:
        print_error(_usage_message(error))
        return ExitCode.BAD_INPUT
    except ShellDetectionError as error:
        print_error(str(error))
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except ImportError as error:
        # cyclopts raises it for a command whose module it can't import.
        if not isinstance(error.__cause__, ModuleNotFoundError):
            raise
        print_error(name_missing_package(error.__cause__))
        return ExitCode.MISSING_DEPENDENCY
    return ExitCode.OK if code is None else int(code)


def _usage_message(error: CycloptsError) -> str:
    """Return what is wrong with the command line, with a suggestion where there is one."""
    if not isinstance(error, UnknownCommandError) or error.app is None or not error.unused_tokens:
        return str(error)
    # cyclopts' own message imports the modules of all commands.
    word = error.unused_tokens[0]
    known = [name for name in error.app if not name.startswith("-")]
    close = difflib.get_close_matches(word, known, n=1)
    close += [name for name in known if name.startswith(word)]
    hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
    return f"unknown command {word!r}{hint}"


def _print_missing_command(app: App, arguments: list[str]) -> bool:
    """Print the help, and return True, if the command line ends before a command."""
    _, apps, rest = app.parse_commands(arguments)
    if rest or apps[-1].default_command is not None:
        return False
    console = Console(stderr=True)
    app.help_print(arguments, console=console)
    print_error("a command is required")
    return True
