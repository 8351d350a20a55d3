"""What all commands share: options out of settings, logging, and exit codes for failures."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from cyclopts import Parameter

from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.settings_options import with_settings_options

F = TypeVar("F", bound=Callable[..., Any])
#: From an exception to the exit code and the message for the user.
DescribeFailure = Callable[[Exception], tuple[ExitCode, str]]

#: A flag has no opposite, and a list no way to be emptied, unless an option says otherwise.
NO_NEGATIVES = Parameter(negative_bool=(), negative_iterable=())

#: The name of the program that runs, with which errors begin.
PROGRAM: ContextVar[str] = ContextVar("PROGRAM", default="purgatory")

logger = logging.getLogger(__name__)


def command(describe_failure: DescribeFailure) -> Callable[[F], F]:
    """Make commands of functions, whose failures become exit codes and a line on standard error.

    The functions return an exit code, and have a parameter `output` of the type `OutputOptions`.
    """

    def decorate(function: F) -> F:
        with_options = with_settings_options(function)

        @functools.wraps(with_options)
        def run(*arguments: Any, **options: Any) -> ExitCode:
            with _logging(verbose=options.get("verbose", False)):
                try:
                    code: ExitCode = with_options(*arguments, **options)
                except ModuleNotFoundError as error:
                    code, message = ExitCode.MISSING_DEPENDENCY, name_missing_package(error)
                except KeyboardInterrupt:
                    code, message = ExitCode.INTERRUPTED, "interrupted; no partial output is left"
                except Exception as error:
                    code, message = describe_failure(error)
                    logger.debug("the command failed", exc_info=True)
                else:
                    return code
            print_error(message)
            return code

        return run  # type: ignore[return-value]

    return decorate


def print_error(message: str) -> None:
    print(f"{PROGRAM.get()}: {message}", file=sys.stderr)


def name_missing_package(error: ModuleNotFoundError) -> str:
    package = (error.name or "").partition(".")[0]
    return f"the Python package {package!r} is not installed"


@contextmanager
def _logging(*, verbose: bool) -> Iterator[None]:
    """Log to standard error in the block: warnings, or with `verbose` everything."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    root, spark = logging.getLogger(), logging.getLogger("DataFrameQueryContextLogger")
    levels = {root: root.level, spark: spark.level}
    if verbose:
        root.setLevel(logging.DEBUG)
    else:
        # PySpark also logs its errors as JSON; the command prints their messages.
        spark.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for changed, level in levels.items():
            changed.setLevel(level)
