"""A log of contained exceptions that does not flood; a host interface, which the broker uses."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from types import FrameType

from request_purgatory._native.failsafe import log, log_contained, traceback_of, warn


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

    #: The most kinds to tell apart. All further ones count as one kind.
    MAX_KINDS = 100

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        # By kinds. A kind has the ids of its types, as a metaclass may have a `__hash__` and
        # `__eq__` that raise. The types are kept beside the number: a freed one's id is used again.
        self._counts: dict[tuple[object, ...], tuple[itertools.count[int], tuple[type, ...]]] = {}
        self.listener: Callable[[BaseException], object] | None = None

    def forget(self) -> None:
        """Begin anew, in a forked child: the parent has logged its errors itself."""
        self._counts = {}

    def tell(self, error: BaseException) -> None:
        """Tell the listener of an exception that is logged elsewhere."""
        if self.listener is not None:
            self.listener(error)

    def log(self, error: BaseException, message: str, *args: object) -> None:
        """Log an exception that was caught, unless many of its kind were; as `log_contained`."""
        self.tell(error)
        number = self._count(message, (*map(type, args), type(error)), error)
        if number == 1:
            log_contained(self._logger, error, message, *args)
        elif _is_power_of_ten(number):
            line = f"{message}: %s (number %d of its kind; the first one has a traceback)"
            log(self._logger, logging.ERROR, None, line, (*args, error, number))

    def warn(self, message: str, *args: object) -> None:
        """Log a warning, unless many of its kind were; as `warn`."""
        number = self._count(message, tuple(map(type, args)), None)
        if number == 1:
            warn(self._logger, message, *args)
        elif _is_power_of_ten(number):
            warn(self._logger, f"{message} (number %d of its kind)", *args, number)

    def _count(self, message: str, types: tuple[type, ...], error: BaseException | None) -> int:
        """Return how many of a kind there are by now; 1 where counting fails, but exits."""
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
    traceback = traceback_of(error)
    if traceback is None:
        return ()
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame: FrameType = traceback.tb_frame
    return (frame.f_code.co_filename, traceback.tb_lineno)


def _is_power_of_ten(number: int) -> bool:
    text = str(number)
    return text == "1".ljust(len(text), "0")
