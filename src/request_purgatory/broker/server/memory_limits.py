"""The bytes that requests may take up while they come in and are handled, and answers while they are not taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

Advance = Callable[[], None]


class _Queue:
    """Who waits for room, each once, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[Advance, None] = {}

    def add(self, advance: Advance) -> None:
        self._waiting[advance] = None

    def discard(self, advance: Advance) -> None:
        self._waiting.pop(advance, None)

    def wake(self) -> None:
        """Call them all soon; who finds no room comes back."""
        waiting, self._waiting = self._waiting, {}
        if waiting:
            loop = asyncio.get_running_loop()
            for advance in waiting:
                loop.call_soon(advance)


class RequestBudget:
    """Bytes that are lent to requests, as by Kafka's memory pool (`queued.max.request.bytes`).

    As there, a request is let in while any byte is left, so that the bound is exceeded by one
    request at the most and one that is larger than the whole budget gets its turn.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.left_bytes = size_bytes
        self._queue = _Queue()

    def take(self, size_bytes: int) -> bool:
        """Lend bytes for a request; False if there are none left."""
        if self.left_bytes <= 0:
            return False
        self.left_bytes -= size_bytes
        return True

    def await_room(self, advance: Advance) -> None:
        """Have `advance` called soon after bytes have been given back, once."""
        self._queue.add(advance)

    def forget(self, advance: Advance) -> None:
        """Who waited needs no room any more."""
        self._queue.discard(advance)

    def give_back(self, size_bytes: int) -> None:
        """Take lent bytes back; who waits for some is called soon."""
        self.left_bytes += size_bytes
        if self.left_bytes > 0:
            self._queue.wake()


class UnreadAnswers:
    """Answers that were sent and not taken, of connections that are not served further until they are.

    No fetch is answered with records while there are `limit_bytes` of them, and nothing else is
    handled while there are twice as many: so many there are at the most, and one answer. (Kafka has
    no such bound and needs none for its fetches, which it sends out of files.)
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self._held: dict[Hashable, tuple[int, int]] = {}
        self._queue = _Queue()

    def __len__(self) -> int:
        return len(self._held)

    def has_room(self, *, is_fetch: bool) -> bool:
        """True if a request may be handled whose answer will be added."""
        return self.bytes < self.limit_bytes * (1 if is_fetch else 2)

    def add(self, connection: Hashable, size_bytes: int, now_ms: int) -> None:
        """A connection has so much that its client does not take."""
        self.remove(connection)
        self._held[connection] = size_bytes, now_ms
        self.bytes += size_bytes

    def remove(self, connection: Hashable) -> None:
        """It has been taken, or the connection has ended."""
        size_bytes, _ = self._held.pop(connection, (0, 0))
        self.bytes -= size_bytes
        if size_bytes and self.bytes < self.limit_bytes:
            self._queue.wake()

    def age_ms(self, connection: Hashable, now_ms: int) -> int:
        """For how long a connection's answer has not been taken; 0 if it has."""
        _, since_ms = self._held.get(connection, (0, now_ms))
        return now_ms - since_ms

    def await_room(self, advance: Advance) -> None:
        """Have `advance` called once there is room again."""
        self._queue.add(advance)

    def forget(self, advance: Advance) -> None:
        """Who waited needs no room any more."""
        self._queue.discard(advance)
