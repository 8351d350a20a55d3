"""Wake-ups that wait until the handler is through, as in Kafka's action queue."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from request_purgatory.aio import Purgatory


class Actions:
    """Keys to be notified once whatever runs now is done with the state that it changes.

    `with actions:` around everything that changes state; leaving the outermost block runs what was
    put off, and what that puts off.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Purgatory, Hashable]] = deque()
        self._depth = 0

    def notify(self, purgatory: Purgatory, key: Hashable) -> None:
        """Notify a key of a purgatory later, in the order of the calls."""
        self._waiting.append((purgatory, key))

    def __enter__(self) -> Actions:
        self._depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        if self._depth > 1:
            self._depth -= 1
            return
        try:
            while self._waiting:
                purgatory, key = self._waiting.popleft()
                if not purgatory.is_closed:
                    purgatory.notify(key)
        finally:
            self._depth -= 1
