"""Logging that never raises, for exceptions of user code that no caller could handle."""

from __future__ import annotations

import logging
import sys


def warn(logger: logging.Logger, message: str, *args: object) -> None:
    """Log a warning; suppress exceptions that logging raises.

    Args:
        logger: The logger of the calling module.
        message: The message, with %-placeholders.
        args: The message's arguments; those that are neither numbers nor strings appear as their
            `repr`, and are not kept by handlers that keep records.
    """
    _log(logger, logging.WARNING, None, message, args)


def log_contained(
    logger: logging.Logger, error: BaseException, message: str, *args: object
) -> None:
    """Log an exception that was caught; suppress exceptions that logging raises.

    A `repr` or one of the application's filters may raise. At the recursion limit every call does.
    Then one line is written to stderr instead.

    Args:
        logger: The logger of the module that caught the exception.
        error: The exception.
        message: The message, with %-placeholders.
        args: The message's arguments, as for `warn`.

    Raises:
        KeyboardInterrupt: Logging raised it.
        SystemExit: Logging raised it.
    """
    _log(logger, logging.ERROR, error, message, args)


def _log(
    logger: logging.Logger,
    level: int,
    error: BaseException | None,
    message: str,
    args: tuple[object, ...],
) -> None:
    try:
        # A record that is kept must not keep an operation, and with it its purgatory.
        logger.log(level, message, *map(_shown, args), exc_info=error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:
        try:
            cause = "" if error is None else f"raised {type(error).__name__}, and "
            sys.stderr.write(
                f"{logger.name}: {message!r}: {cause}logging it raised {type(failure).__name__}\n"
            )
        except Exception:
            pass  # Nowhere is left to report it; the caller's work must go on.


def _shown(value: object) -> object:
    """Return a number or string as it is, and the `repr` of anything else."""
    if isinstance(value, (str, int, float)):
        return value
    try:
        return repr(value)
    except Exception as failure:
        return f"<{type(value).__name__} whose repr raises {type(failure).__name__}>"
