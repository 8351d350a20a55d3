"""Connections to a node without a network: they pass bytes as an event loop does."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from purgatory_broker.cluster.node import Node
from purgatory_broker.server.connection import Connection

#: asyncio's default: with more unsent bytes than this, `pause_writing` is called.
_HIGH_WATER_BYTES = 65_536


class MemoryTransport(asyncio.Transport):
    """A transport that collects what is written to it.

    Its client reads at once, or, with `is_slow`, when `read_all` is called.
    """

    def __init__(self, peer: tuple[Any, ...], *, is_slow: bool = False) -> None:
        super().__init__()
        self._peer = peer
        self.sent = bytearray()
        self.is_closed = False
        self.is_aborted = False
        self.connection: Connection | None = None
        self._is_slow = is_slow
        self._unread = 0
        self._reading = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the peer's name."""
        return self._peer if name == "peername" else default

    def write(self, data: Any) -> None:
        """Collect a response."""
        assert not self.is_closed, "a response after the close"
        self.sent += data
        if self._is_slow:
            before, self._unread = self._unread, self._unread + len(data)
            if before <= _HIGH_WATER_BYTES < self._unread:
                assert self.connection is not None
                self.connection.pause_writing()

    def read_all(self) -> None:
        """Have the client read everything."""
        before, self._unread = self._unread, 0
        if before > _HIGH_WATER_BYTES:
            assert self.connection is not None
            self.connection.resume_writing()

    def get_write_buffer_size(self) -> int:
        """Return the number of unread bytes."""
        return self._unread

    def is_reading(self) -> bool:
        """Return whether the node reads."""
        return self._reading

    def pause_reading(self) -> None:
        """Stop reading."""
        self._reading = False

    def resume_reading(self) -> None:
        """Read again."""
        self._reading = True

    def is_closing(self) -> bool:
        """Return whether the transport is closed."""
        return self.is_closed

    def close(self) -> None:
        """Close as asyncio does: unread bytes can still be read."""
        if not self.is_closed and not self._unread:
            self._lose()
        self.is_closed = True

    def abort(self) -> None:
        """Close at once."""
        self.is_closed = self.is_aborted = True
        self._unread = 0
        self._lose()

    def _lose(self) -> None:
        assert self.connection is not None
        asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)


class RawConnection:
    """A connection to a node. It sends without regard to whether the node reads."""

    def __init__(
        self,
        node: Node,
        *,
        is_slow: bool = False,
        listener: int = 0,
        peer: tuple[Any, ...] = ("127.0.0.1", 1),
    ) -> None:
        self.transport = MemoryTransport(peer, is_slow=is_slow)
        self.connection = Connection(node.server, node.server.listeners[listener])
        self.transport.connection = self.connection
        self._responses = node.server.responses
        self.connection.connection_made(self.transport)

    def send(self, raw: bytes) -> None:
        """Pass bytes to the node as asyncio does, until the connection is closed."""
        unsent = memoryview(raw)
        while unsent and not self.transport.is_closed:
            buffer = self.connection.get_buffer(-1)
            size = min(len(buffer), len(unsent))
            buffer[:size] = unsent[:size]
            self.connection.buffer_updated(size)
            unsent = unsent[size:]
        # The end of the event loop's turn.
        self._responses.flush()

    def responses(self) -> list[bytes]:
        """Return the frames of the responses, without their sizes; all must be complete."""
        self._responses.flush()
        found = []
        sent = bytes(self.transport.sent)
        position = 0
        while position < len(sent):
            (size,) = struct.unpack_from(">i", sent, position)
            found.append(sent[position + 4 : position + 4 + size])
            position += 4 + size
        assert position == len(sent), "an incomplete response"
        return found

    def end(self) -> None:
        """Lose the connection."""
        self.transport.is_closed = True
        self.connection.connection_lost(None)
