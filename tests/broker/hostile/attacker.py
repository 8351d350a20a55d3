"""Connections to a node without a network: bytes are handed to them as the event loop would."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from request_purgatory.broker.cluster.node import Node
from request_purgatory.broker.server.connection import Connection

#: As asyncio's: with more than this unsent, a connection is told to write no more.
_HIGH_WATER_BYTES = 65_536


class Wire(asyncio.Transport):
    """A transport that keeps what is written to it.

    Its client takes it at once, or, where it is slow, when `take` is called.
    """

    def __init__(self, *, is_slow: bool = False) -> None:
        super().__init__()
        self.sent = bytearray()
        self.is_ended = False
        self.is_aborted = False
        self.connection: Connection | None = None
        self._is_slow = is_slow
        self._untaken = 0
        self._reading = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data: Any) -> None:
        assert not self.is_ended, "an answer after the end"
        self.sent += data
        if self._is_slow:
            before, self._untaken = self._untaken, self._untaken + len(data)
            if before <= _HIGH_WATER_BYTES < self._untaken:
                assert self.connection is not None
                self.connection.pause_writing()

    def take(self) -> None:
        """The client takes all that it was sent."""
        before, self._untaken = self._untaken, 0
        if before > _HIGH_WATER_BYTES:
            assert self.connection is not None
            self.connection.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self._untaken

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True

    def is_closing(self) -> bool:
        return self.is_ended

    def close(self) -> None:
        """As of the standard library: what was sent is still to be taken."""
        if not self.is_ended and not self._untaken:
            self._lose()
        self.is_ended = True

    def abort(self) -> None:
        self.is_ended = self.is_aborted = True
        self._untaken = 0
        self._lose()

    def _lose(self) -> None:
        assert self.connection is not None
        asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)


class Attacker:
    """One connection to a node. What it is told to send it sends whether it is read or not."""

    def __init__(self, node: Node, *, is_slow: bool = False) -> None:
        self.wire = Wire(is_slow=is_slow)
        self.wire.connection = self.connection = Connection(node.server)
        self.connection.connection_made(self.wire)

    def send(self, raw: bytes) -> None:
        """Bytes come in, unless the connection has ended."""
        if not self.wire.is_ended:
            self.connection.data_received(raw)

    def answers(self) -> list[bytes]:
        """The frames that were sent back, without their sizes; none is left in part."""
        found = []
        sent = bytes(self.wire.sent)
        position = 0
        while position < len(sent):
            (size,) = struct.unpack_from(">i", sent, position)
            found.append(sent[position + 4 : position + 4 + size])
            position += 4 + size
        assert position == len(sent), "an answer in part"
        return found

    def end(self) -> None:
        """The connection is lost."""
        self.wire.is_ended = True
        self.connection.connection_lost(None)
