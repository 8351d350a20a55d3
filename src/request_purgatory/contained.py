"""How what user code raises is logged where nobody else can be told."""

from __future__ import annotations

import logging
import sys


def log_contained(logger: logging.Logger, error: BaseException, message: str, *args: object) -> None:
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
    try:
        logger.error(message, *args, exc_info=error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:
        try:
            kinds = f"{type(error).__name__}, and logging it {type(failure).__name__}"
            sys.stderr.write(f"{logger.name}: {message!r}: raised {kinds}\n")
        except Exception:
            pass  # No place is left to report it at; the caller's work must go on.
