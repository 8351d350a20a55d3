"""Logging that never raises, for exceptions of user code that no caller could handle."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from request_purgatory import errors
from request_purgatory.errors import type_name

# The field itself: a class may have its own `__traceback__`, which raises.
traceback_of: Callable[[BaseException], TracebackType | None] = vars(BaseException)[
    "__traceback__"
].__get__


def warn(logger: logging.Logger, message: str, *args: object) -> None:
    """Log a warning; suppress exceptions that logging raises.

    Of the arguments, those that are neither numbers nor strings appear as their `repr`, and are not
    kept by handlers that keep records.
    """
    log(logger, logging.WARNING, None, message, args)


def log_contained(
    logger: logging.Logger, error: BaseException, message: str, *args: object
) -> None:
    """Log an exception that was caught; suppress what logging raises, but exits.

    A `repr` or one of the application's filters may raise. At the recursion limit every call does.
    Then one line is written to stderr instead.
    """
    log(logger, logging.ERROR, error, message, args)


def log(
    logger: logging.Logger,
    level: int,
    error: BaseException | None,
    message: str,
    args: tuple[object, ...],
) -> None:
    try:
        # The parts of the exception, which logging would ask for by attributes.
        parts: Any = None if error is None else (type(error), error, traceback_of(error))
        # A record that is kept must not keep an operation, and with it its purgatory.
        logger.log(level, message, *map(shown, args), exc_info=parts)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:
        try:
            cause = "" if error is None else f"raised {type_name(error)}, and "
            sys.stderr.write(
                f"{logger.name}: {message!r}: {cause}logging it raised {type_name(failure)}\n"
            )
        except Exception:
            pass  # Nowhere is left to report it; the caller's work must go on.


def shown(value: object) -> object:
    """Return a number or string as it is, and the `repr` of anything else, a plain string."""
    if issubclass(type(value), (str, int, float)):
        return value
    return errors.shown(value)


def ends_program(error: BaseException) -> bool:
    """Return True for KeyboardInterrupt and SystemExit.

    By the type: `isinstance` asks any other exception for its `__class__`, which may raise.
    """
    return issubclass(type(error), (KeyboardInterrupt, SystemExit))
