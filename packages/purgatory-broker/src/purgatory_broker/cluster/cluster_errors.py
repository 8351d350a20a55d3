"""The errors of a cluster's commands."""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Iterator, Sequence

from request_purgatory.errors import PurgatoryError


class ClusterError(PurgatoryError):
    """A cluster refused a command, did not start, or is not running; the message gives the reason.

    Attributes:
        code: Kafka's name of the error; None if it has none.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[ClusterError], tuple[str, str | None]]:
        return type(self), (str(self), self.code)


class ClusterTimeoutError(ClusterError, TimeoutError):
    """What `wait_for` waits for did not happen in time; the message has the state at the end."""


#: Exceptions of a block that end the process or the task, and are not to be replaced.
_ENDING = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)
#: The most exceptions that notes are made of.
_MAX_NOTES = 3


class UnseenErrors:
    """The exceptions of one function, in the order in which they were raised.

    Any thread may call the methods. Each exception is taken once.
    """

    def __init__(self) -> None:
        self._errors: deque[BaseException] = deque()

    def add(self, error: BaseException) -> None:
        self._errors.append(error)

    def take(self) -> Iterator[BaseException]:
        while self._errors:
            try:
                yield self._errors.popleft()
            except IndexError:  # Another thread has taken the last one.
                return


def raise_first(errors: Sequence[BaseException], during: BaseException | None = None) -> None:
    """Raise the first of some exceptions, with notes on the others; no-op if there are none.

    `during`, the exception that is leaving the block, becomes the context of the one that is
    raised. If it ends the process or the task, it goes on instead.
    """
    if isinstance(during, _ENDING):
        _add_notes(during, errors)
    elif errors:
        _add_notes(errors[0], errors[1:])
        raise errors[0]


def _add_notes(error: BaseException, others: Sequence[BaseException]) -> None:
    for other in others[:_MAX_NOTES]:
        if other is not error:
            text = "".join(traceback.format_exception_only(other)).rstrip()
            error.add_note(f"A function given to intercept has raised, too: {text}")
    if len(others) > _MAX_NOTES:
        error.add_note(f"It has raised {len(others) - _MAX_NOTES} more exceptions.")
