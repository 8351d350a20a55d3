"""The last requests of clients and their responses, as bytes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from request_purgatory.broker.wire.messages import Header

#: The most requests that are remembered, and the most bytes of them and their responses together.
MAX_REQUESTS = 10_000
MAX_BYTES = 16 * 2**20
#: A larger request or response is remembered without its fields.
MAX_FRAME_BYTES = 2**20


@dataclass(slots=True, eq=False)
class LoggedRequest:
    """A request that a node has received.

    Attributes:
        node_id: the node's number.
        header: the request's header.
        received_ms: the time of day in milliseconds since 1970.
        frame: the request; None if it is too large.
        answered_ms: the time of day of its response; None while there is none.
        response: the response with its header; None if there is none, or if it is too large.
    """

    node_id: int
    header: Header
    received_ms: int
    frame: bytes | None
    answered_ms: int | None = None
    response: bytes | bytearray | None = None
    #: False once it has made room for later requests.
    is_remembered: bool = True

    @property
    def size_bytes(self) -> int:
        """The bytes that are remembered."""
        return len(self.frame or b"") + len(self.response or b"")


class RequestLog:
    """Remembers the last requests of all nodes, and counts all.

    Frames are kept as they were on the wire, and decoded only when a test asks. So a request costs
    little, and the memory has a limit in bytes.
    """

    def __init__(self, wall_ms: Callable[[], int], on_request: Callable[[str], None]) -> None:
        """Create an empty log.

        Args:
            wall_ms: returns the time of day in milliseconds since 1970.
            on_request: called with the name of the API of each request.
        """
        self.requests: deque[LoggedRequest] = deque()
        #: By the names of APIs: the requests since the start.
        self.counts: Counter[str] = Counter()
        self._size_bytes = 0
        self._wall_ms = wall_ms
        self._on_request = on_request

    def received(self, node_id: int, header: Header, frame: bytes) -> LoggedRequest:
        """Remember a request.

        Returns:
            Its entry, for `answered`.
        """
        kept = frame if len(frame) <= MAX_FRAME_BYTES else None
        request = LoggedRequest(node_id, header, self._wall_ms(), kept)
        self.requests.append(request)
        self._add(request.size_bytes)
        self.counts[header.api.name] += 1
        self._on_request(header.api.name)
        return request

    def answered(self, request: LoggedRequest, response: bytes | bytearray | None) -> None:
        """Remember a response; None for a request without one."""
        request.answered_ms = self._wall_ms()
        if request.is_remembered and response is not None and len(response) <= MAX_FRAME_BYTES:
            request.response = response
            self._add(len(response))

    def clear(self) -> None:
        """Forget all requests and their counts."""
        for request in self.requests:
            request.is_remembered = False
        self.requests.clear()
        self.counts.clear()
        self._size_bytes = 0

    def _add(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        while len(self.requests) > MAX_REQUESTS or self._size_bytes > MAX_BYTES:
            oldest = self.requests.popleft()
            oldest.is_remembered = False
            self._size_bytes -= oldest.size_bytes
