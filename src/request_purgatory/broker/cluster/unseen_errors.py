"""What functions of a test have raised, until somebody has seen it.

The functions run on the cluster's event loop, where no test catches what they raise.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Sequence

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
        """Keep an exception."""
        self._errors.append(error)

    def take(self) -> Iterator[BaseException]:
        """Iterate over the exceptions that are kept, and forget each.

        Yields:
            An exception.
        """
        while self._errors:
            try:
                yield self._errors.popleft()
            except IndexError:  # Another thread has taken the last one.
                return


def raise_first(errors: Sequence[BaseException], during: BaseException | None = None) -> None:
    """Raise the first of some exceptions, with notes on the others; no-op if there are none.

    One that skips the test, or expects it to fail, gives way to one that does neither.

    Args:
        errors: the exceptions.
        during: the exception that is leaving the block; None if there is none. It becomes the
            context of the one that is raised. One that ends the process or the task goes on
            instead, with notes on the others; and so does a failure where all others are skips.

    Raises:
        BaseException: the first.
    """
    lenient = _lenient_kinds()
    ordered = sorted(errors, key=lambda each: isinstance(each, lenient))
    goes_on = isinstance(during, _ENDING) or (
        during is not None
        and not isinstance(during, lenient)
        and all(isinstance(each, lenient) for each in ordered)
    )
    if goes_on and during is not None:
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
    for each in others[:_MAX_NOTES]:
        if each is not error:
            text = "".join(traceback.format_exception_only(each)).rstrip()
            error.add_note(f"A function given to intercept has raised, too: {text}")
    if len(others) > _MAX_NOTES:
        error.add_note(f"It has raised {len(others) - _MAX_NOTES} more exceptions.")
