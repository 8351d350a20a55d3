"""What functions of a test have raised, until somebody has seen it.

The functions run on the cluster's event loop, where no test catches what they raise.
"""

from __future__ import annotations

import asyncio
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
