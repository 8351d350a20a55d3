"""What a waiter awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from request_purgatory.errors import (
    InvalidArgumentError,
    OperationCancelledError,
    PurgatoryClosedError,
)

if TYPE_CHECKING:
    from request_purgatory.purgatory.operation import DelayedOperation
    from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory


class Waiting(asyncio.Future[Any]):
    """A future whose cancelling ends the operation that it waits for, at once.

    Attributes:
        purgatory, operation: set by whoever makes it: an `__init__` in Python would be a call more
            for each waiter.
    """

    __slots__ = ("operation", "purgatory")

    purgatory: DelayedOperationPurgatory
    operation: DelayedOperation

    def cancel(self, msg: Any | None = None) -> bool:
        """As a future's, and the operation leaves the purgatory.

        No watcher and no timer stay behind.
        """
        if not super().cancel(msg):
            return False
        self.purgatory.discard(self.operation)
        return True


def end_unanswered(waiting: Waiting, operation: DelayedOperation) -> None:
    """Tell a waiter, if it still waits, that its operation was cancelled.

    With the purgatory, or by itself.
    """
    if waiting.done():
        return
    purgatory = waiting.purgatory
    if purgatory.is_closed:
        waiting.set_exception(PurgatoryClosedError(purgatory.name))
    else:
        waiting.set_exception(OperationCancelledError(purgatory.name, operation))


def checked_keys(keys: object) -> list[Hashable]:
    """The watch keys as a list, each once.

    InvalidArgumentError for none, or one string where several keys belong.
    """
    if isinstance(keys, (str, bytes)):
        raise InvalidArgumentError("keys", "a list of keys, not one string", keys)
    found: list[Hashable] = list(keys)  # type: ignore[call-overload]
    if not found:
        raise InvalidArgumentError("keys", "at least one key", found)
    return found if len(found) == 1 else list(dict.fromkeys(found))
