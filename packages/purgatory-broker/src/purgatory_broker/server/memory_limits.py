"""Limits on the memory of requests in flight, and of responses that clients do not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

#: Continues a connection that waits for memory.
Resume = Callable[[], None]


class _WaitQueue:
    """The connections that wait for memory, each once, in the order of their arrival."""

    def __init__(self) -> None:
        self.waiting: dict[Resume, None] = {}

    def wait(self, resume: Resume) -> None:
        """Call `resume` once, soon after there is memory again."""
        self.waiting[resume] = None

    def cancel_wait(self, resume: Resume) -> None:
        self.waiting.pop(resume, None)

    def _wake(self) -> None:
        """Schedule a call of every `resume`; a connection that finds no memory waits again."""
        waiting, self.waiting = self.waiting, {}
        if waiting:
            loop = asyncio.get_running_loop()
            for resume in waiting:
                loop.call_soon(resume)


class RequestMemoryPool(_WaitQueue):
    """The memory of requests that are read or handled: `queued.max.request.bytes`.

    As in Kafka's `SimpleMemoryPool`, a request of any size is allocated as long as any byte is
    available. The limit is exceeded by at most one request, and a request that is larger than the
    pool does not wait for ever.
    """

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self.size_bytes = size_bytes
        #: Below 0 while the limit is exceeded.
        self.available_bytes = size_bytes

    def try_allocate(self, size_bytes: int) -> bool:
        if self.available_bytes <= 0:
            return False
        self.available_bytes -= size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        self.available_bytes += size_bytes
        if self.available_bytes > 0:
            self._wake()


class UnreadResponses(_WaitQueue):
    """The responses that clients do not read, and whose connections are not served meanwhile.

    While they have `limit_bytes` or more, no Fetch request is handled, and those that wait are
    answered without records. At twice the limit no request is handled. The limit of 2 *
    `limit_bytes` is exceeded by at most one response. (Kafka has no such limit: it sends records
    from its files.)
    """

    def __init__(self, limit_bytes: int) -> None:
        super().__init__()
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self._unread: dict[Hashable, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._unread)

    def has_room(self, *, is_fetch: bool) -> bool:
        return self.bytes < self.limit_bytes * (1 if is_fetch else 2)

    def add(self, connection: Hashable, size_bytes: int, now_ms: int) -> None:
        """Count the bytes that a connection's client does not read since `now_ms`."""
        self.remove(connection)
        self._unread[connection] = size_bytes, now_ms
        self.bytes += size_bytes

    def remove(self, connection: Hashable) -> None:
        """Stop counting a connection: its client has read on, or disconnected."""
        size_bytes, _ = self._unread.pop(connection, (0, 0))
        self.bytes -= size_bytes
        if size_bytes and self.bytes < self.limit_bytes:
            self._wake()

    def age_ms(self, connection: Hashable, now_ms: int) -> int:
        """Return how long a connection has had an unread response; 0 if it has none."""
        _, since_ms = self._unread.get(connection, (0, now_ms))
        return now_ms - since_ms
