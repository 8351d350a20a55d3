"""The bytes that requests may take up while they come in and are handled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class RequestBudget:
    """Bytes that are lent to requests, as by Kafka's memory pool (`queued.max.request.bytes`).

    As there, a request is let in while any byte is left, so that the bound is exceeded by one request at the most and one that is
    larger than the whole budget gets its turn.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.left_bytes = size_bytes
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, size_bytes: int) -> bool:
        """Lend bytes for a request; False if there are none left."""
        if self.left_bytes <= 0:
            return False
        self.left_bytes -= size_bytes
        return True

    def await_room(self, advance: Callable[[], None]) -> None:
        """Have `advance` called once bytes have been given back; it is called once for each time that it is handed in."""
        self._waiting.append(advance)

    def give_back(self, size_bytes: int) -> None:
        """Take lent bytes back; who waits for some is called soon."""
        self.left_bytes += size_bytes
        if self.left_bytes > 0 and self._waiting:
            loop = asyncio.get_running_loop()
            for _ in range(len(self._waiting)):
                loop.call_soon(self._waiting.popleft())
