"""Logging that never raises, for exceptions of user code that no caller could handle."""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from request_purgatory import errors
from request_purgatory.errors import type_name

# The field itself: a class may have its own `__traceback__`, which raises.
_get_traceback: Callable[[BaseException], TracebackType | None] = vars(BaseException)[
    "__traceback__"
].__get__


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


class ErrorLog:
    """Logs the exceptions that one owner contains, each kind of them in full only once.

    The first of a kind is logged with its traceback, and the 10th, the 100th, the 1,000th and so on
    as one line with the number. So an operation that fails 10,000 times leaves a traceback and four
    lines; counting all is left to metrics. A kind is the message, the types of its arguments, the
    exception's type and the line that raised it.

    Any thread may call it, without a lock.

    Attributes:
        listener: Called with each exception, for a test that is to fail of it; must not raise. None
            calls nothing.
    """

    __slots__ = ("_counts", "_logger", "listener")

    listener: Callable[[BaseException], object] | None

    # By kinds. A kind has the ids of its types, as a metaclass may have a `__hash__` and `__eq__`
    # that raise. The types are kept beside the number: a freed one's id is used again.
    _counts: dict[tuple[object, ...], tuple[itertools.count[int], tuple[type, ...]]]

    #: The most kinds to tell apart. All further ones count as one kind.
    MAX_KINDS = 100

    def __init__(self, logger: logging.Logger) -> None:
        """Make a log that has seen no exception.

        Args:
            logger: The logger of the module that catches the exceptions.
        """
        self._logger = logger
        self._counts = {}
        self.listener = None

    def log(self, error: BaseException, message: str, *args: object) -> None:
        """Log an exception that was caught, unless many of its kind were; as `log_contained`.

        Args:
            error: The exception.
            message: The message, with %-placeholders.
            args: The message's arguments.
        """
        if self.listener is not None:
            self.listener(error)
        number = self._count(message, (*map(type, args), type(error)), error)
        if number == 1:
            log_contained(self._logger, error, message, *args)
        elif _is_power_of_ten(number):
            line = f"{message}: %s (number %d of its kind; the first one has a traceback)"
            _log(self._logger, logging.ERROR, None, line, (*args, error, number))

    def warn(self, message: str, *args: object) -> None:
        """Log a warning, unless many of its kind were; as `warn`.

        Args:
            message: The message, with %-placeholders.
            args: The message's arguments.
        """
        number = self._count(message, tuple(map(type, args)), None)
        if number == 1:
            warn(self._logger, message, *args)
        elif _is_power_of_ten(number):
            warn(self._logger, f"{message} (number %d of its kind)", *args, number)

    def _count(self, message: str, types: tuple[type, ...], error: BaseException | None) -> int:
        """Return how many of a kind there are by now; 1 where counting fails.

        Raises:
            KeyboardInterrupt: Raised by a signal handler.
            SystemExit: Raised by a signal handler.
        """
        try:
            counts = self._counts
            place = () if error is None else _place(error)
            kind: tuple[object, ...] = (message, *map(id, types), *place)
            if kind not in counts and len(counts) >= self.MAX_KINDS:
                kind, types = (), ()
            # Each step is atomic: threads get different numbers.
            numbers, _ = counts.setdefault(kind, (itertools.count(1), types))
            return next(numbers)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # Such as at the recursion limit, where every call raises.
            return 1


def _place(error: BaseException) -> tuple[object, ...]:
    """Return the file and line that raised an exception; nothing where it was not raised."""
    traceback = _get_traceback(error)
    if traceback is None:
        return ()
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame: FrameType = traceback.tb_frame
    return (frame.f_code.co_filename, traceback.tb_lineno)


def _is_power_of_ten(number: int) -> bool:
    text = str(number)
    return text == "1".ljust(len(text), "0")


def _log(
    logger: logging.Logger,
    level: int,
    error: BaseException | None,
    message: str,
    args: tuple[object, ...],
) -> None:
    try:
        # The parts of the exception, which logging would ask for by attributes.
        parts: Any = None if error is None else (type(error), error, _get_traceback(error))
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
    """Return a number or string as it is, and the `repr` of anything else, a plain string.

    Raises:
        KeyboardInterrupt: The `repr` raised it.
        SystemExit: The `repr` raised it.
    """
    if issubclass(type(value), (str, int, float)):
        return value
    return errors.shown(value)


def ends_program(error: BaseException) -> bool:
    """Return True for KeyboardInterrupt and SystemExit.

    By the type: `isinstance` asks any other exception for its `__class__`, which may raise.
    """
    return issubclass(type(error), (KeyboardInterrupt, SystemExit))
