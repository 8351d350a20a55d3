"""The errors of a cluster's commands."""

from __future__ import annotations

import sys
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

    One that skips the test, or expects it to fail, gives way to one that does neither.

    `during`, the exception that is leaving the block, becomes the context of the one that is
    raised, of whatever kind it is: a test may expect a SystemExit. If it is no skip and all others
    are, it goes on instead, with notes on them.
    """
    lenient = _lenient_kinds()
    ordered = sorted(errors, key=lambda error: isinstance(error, lenient))
    if (
        during is not None
        and not isinstance(during, lenient)
        and all(isinstance(error, lenient) for error in ordered)
    ):
        _add_notes(during, ordered)
    elif ordered:
        _add_notes(ordered[0], ordered[1:])
        raise ordered[0]


def _lenient_kinds() -> tuple[type[BaseException], ...]:
    """Return the exceptions by which a test has not failed, of the packages that are in use."""
    kinds: list[type[BaseException]] = []
    if "unittest" in sys.modules:
        kinds.append(sys.modules["unittest"].SkipTest)
    if "pytest" in sys.modules:
        pytest = sys.modules["pytest"]
        kinds += [pytest.skip.Exception, pytest.xfail.Exception]
    return tuple(kinds)


def _add_notes(error: BaseException, others: Sequence[BaseException]) -> None:
    for other in others[:_MAX_NOTES]:
        if other is not error:
            text = "".join(traceback.format_exception_only(other)).rstrip()
            error.add_note(f"A function given to intercept has raised, too: {text}")
    if len(others) > _MAX_NOTES:
        error.add_note(f"It has raised {len(others) - _MAX_NOTES} more exceptions.")
