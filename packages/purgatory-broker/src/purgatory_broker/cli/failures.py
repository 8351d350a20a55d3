"""What a failure of a command means to its user."""

from __future__ import annotations

import errno

from purgatory_broker.metadata.controller_error import ControllerError
from purgatory_broker.replication.recorder import RecorderError
from request_purgatory.command_line.exit_codes import ExitCode
from request_purgatory.errors import InvalidArgumentError, PurgatoryError


def describe_failure(error: Exception) -> tuple[ExitCode, str]:
    if isinstance(error, RecorderError):  # pyarrow is not installed
        return ExitCode.MISSING_DEPENDENCY, str(error)
    if isinstance(error, (InvalidArgumentError, ControllerError)):
        return ExitCode.BAD_INPUT, str(error)
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        options = "--port and --control-port choose others, 0 free ones"
        return ExitCode.FAILED, f"{str(error).strip()}; {options}"
    if isinstance(error, (PurgatoryError, OSError)):
        return ExitCode.FAILED, str(error)
    return ExitCode.FAILED, f"{type(error).__name__}: {error}\n(-v shows the traceback)"
