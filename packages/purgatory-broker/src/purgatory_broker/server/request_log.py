"""The last requests of clients and their responses, as bytes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from purgatory_broker._wire.messages import Header

#: The most requests that are remembered, and the most bytes of them and their responses together.
MAX_REQUESTS = 10_000
MAX_BYTES = 16 * 2**20
#: A larger request or response is remembered without its fields.
MAX_FRAME_BYTES = 2**20


@dataclass(slots=True, eq=False)
class LoggedRequest:
    node_id: int
    header: Header
    #: The time of day in milliseconds since 1970.
    received_ms: int
    #: The request; None if it is too large.
    frame: bytes | None
    #: The bytes that are remembered; -1 once it has made room for later requests.
    size_bytes: int
    #: The time of day of its response; None while there is none.
    answered_ms: int | None = None
    #: The response with its header; None if there is none, or if it is too large.
    response: bytes | bytearray | None = None


class RequestLog:
    """Remembers the last requests of all nodes, and counts all.

    Frames are kept as they were on the wire, and decoded only when a test asks. So a request costs
    little, and the memory has a limit in bytes.
    """

    def __init__(self, wall_ms: Callable[[], int], on_request: Callable[[str], None]) -> None:
        self.requests: deque[LoggedRequest] = deque()
        #: By the names of APIs: the requests since the start or `clear`.
        self.counts: Counter[str] = Counter()
        self._size_bytes = 0
        self._wall_ms = wall_ms
        self._on_request = on_request

    def received(self, node_id: int, header: Header, frame: bytes) -> LoggedRequest:
        kept = frame if len(frame) <= MAX_FRAME_BYTES else None
        size = 0 if kept is None else len(kept)
        request = LoggedRequest(node_id, header, self._wall_ms(), kept, size)
        self._size_bytes += size
        self.requests.append(request)
        self._drop_oldest()
        name = header.api.name
        self.counts[name] += 1
        self._on_request(name)
        return request

    def answered(self, request: LoggedRequest, response: bytes | bytearray | None) -> None:
        request.answered_ms = self._wall_ms()
        if response is None or request.size_bytes < 0:
            return
        size = len(response)
        if size <= MAX_FRAME_BYTES:
            request.response = response
            request.size_bytes += size
            self._size_bytes += size
            self._drop_oldest()

    def clear(self) -> None:
        for request in self.requests:
            request.size_bytes = -1
        self.requests.clear()
        self.counts.clear()
        self._size_bytes = 0

    def _drop_oldest(self) -> None:
        while len(self.requests) > MAX_REQUESTS or self._size_bytes > MAX_BYTES:
            oldest = self.requests.popleft()
            self._size_bytes -= oldest.size_bytes
            oldest.size_bytes = -1
