"""How what user code raises is logged where nobody else can be told."""

from __future__ import annotations

import logging
import sys


def warn(logger: logging.Logger, message: str, *args: object) -> None:
    """Log a warning, and raise nothing of logging's own."""
    _log(logger, logging.WARNING, None, message, args)


def log_contained(
    logger: logging.Logger, error: BaseException, message: str, *args: object
) -> None:
    """Log an exception that was contained, and raise none of logging's own.

    A `repr` may raise, as may a filter of the application's, and at the recursion limit every call
    does. One line goes to stderr then.

    Args:
        logger: The logger of the module that contained the exception.
        error: What was raised.
        message: The message, with %-placeholders.
        args: The message's arguments.

    Raises:
        KeyboardInterrupt, SystemExit: The program is to end.
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
        logger.log(level, message, *args, exc_info=error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:
        try:
            cause = "" if error is None else f"raised {type(error).__name__}, and "
            sys.stderr.write(
                f"{logger.name}: {message!r}: {cause}logging it raised {type(failure).__name__}\n"
            )
        except Exception:
            pass  # No place is left to report it at; the caller's work must go on.
