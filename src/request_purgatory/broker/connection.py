"""A client's connection: bytes to requests, one at a time, and responses to bytes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from request_purgatory.broker.context import Client, RequestContext
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.broker.wire.frame import SIZE_BYTES, frame_size
from request_purgatory.broker.wire.messages import read_header, read_request

if TYPE_CHECKING:
    from request_purgatory.broker.server import Server

logger = logging.getLogger(__name__)

#: How much may come in while a request is handled, before the connection is not read on.
READ_AHEAD_BYTES = 65_536


class Connection(asyncio.Protocol):
    """One connection of a node.

    Requests are handled in order, one in flight at a time as in Kafka: until one is answered, and the client has taken the
    answer, the next is left where it is.
    """

    __slots__ = (
        "_budgeted",
        "_buffer",
        "_busy",
        "_client_host",
        "_context",
        "_handling",
        "_held_up",
        "_muted",
        "_server",
        "_size",
        "_transport",
        "active_ms",
        "is_closed",
    )

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        #: The size of the frame that comes in, -1 between frames; and whether its bytes have been granted.
        self._size = -1
        self._budgeted = 0
        self._context: RequestContext | None = None
        self._handling = False
        #: The client does not take what it was sent; the connection is throttled; there is no memory for its next request.
        self._held_up = False
        self._muted = False
        self._client_host = "unknown"
        self.is_closed = False
        self.active_ms = server.now_ms()

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        if peer:
            # As Java writes an address that has no name.
            self._client_host = f"/{peer[0]}"
        if not self._server.admit(self):
            self.close("there are max_connections already")

    def data_received(self, data: bytes) -> None:
        self.active_ms = self._server.now_ms()
        self._buffer += data
        self._advance()

    def pause_writing(self) -> None:
        self._held_up = True

    def resume_writing(self) -> None:
        self._held_up = False
        self._advance()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self.is_closed = True
        self._free()
        self._buffer.clear()
        self._server.forget(self)
        if self._context is not None:
            self._context.abandon()
            self._context = None

    # -- requests

    def _advance(self) -> None:
        """Handle what has come in, as far as the connection may."""
        if self._handling:
            return  # By a reply inside the loop below.
        self._handling = True
        try:
            while self._context is None and not (self._held_up or self._muted or self.is_closed):
                frame = self._next_frame()
                if frame is None:
                    break
                self._handle(frame)
        except WireError as error:
            self.close(str(error))
        finally:
            self._handling = False
        self._read_on_or_pause()

    def _next_frame(self) -> bytes | None:
        if self._size < 0:
            if len(self._buffer) < SIZE_BYTES:
                return None
            self._size = frame_size(self._buffer, self._server.settings.socket_request_max_bytes)
        if not self._budgeted and self._size > 0:
            if not self._server.budget.take(self._size):
                self._server.budget.await_room(self._advance)
                return None
            self._budgeted = self._size
        end = SIZE_BYTES + self._size
        if len(self._buffer) < end:
            return None
        frame = bytes(memoryview(self._buffer)[SIZE_BYTES:end])
        del self._buffer[:end]
        self._size = -1
        return frame

    def _handle(self, frame: bytes) -> None:
        header = read_header(frame)
        request = read_request(frame, header) if header.is_served else None
        client = Client(header.client_id or "", self._client_host)
        self._context = context = RequestContext(header, client, self._server.now_ms(), self._send, self.close)
        self._server.handle(context, request)

    def _send(self, context: RequestContext, response: Any) -> None:
        """The reply of a context; None is that there is none."""
        if context is not self._context:
            return  # The connection has ended meanwhile.
        self._server.deliver(self, context, response)

    def write(self, context: RequestContext, frame: bytes | None) -> None:
        """Put an answer on the wire, and go on with the next request."""
        if self.is_closed or context is not self._context or self._transport is None:
            return
        if frame is not None:
            self._transport.write(frame)
        self._context = None
        self.active_ms = self._server.now_ms()
        self._free()
        if context.throttle_ms > 0:
            self._muted = True
            self._server.throttle(self, context.throttle_ms)
        self._advance()

    def unmute(self) -> None:
        """The time is over for which the client was throttled."""
        self._muted = False
        if not self.is_closed:
            self._advance()

    def _free(self) -> None:
        if self._budgeted:
            budgeted, self._budgeted = self._budgeted, 0
            self._server.budget.give_back(budgeted)

    def _read_on_or_pause(self) -> None:
        transport = self._transport
        if transport is None or self.is_closed or transport.is_closing():
            return
        # A frame whose bytes are granted may come in whole; everything else only so far ahead.
        waits = not self._budgeted or self._context is not None
        full = waits and len(self._buffer) > READ_AHEAD_BYTES
        if full and transport.is_reading():
            transport.pause_reading()
        elif not full and not transport.is_reading():
            transport.resume_reading()

    # -- the end

    @property
    def is_in_request(self) -> bool:
        """True while a request has come in part."""
        return self._context is None and not self._muted and bool(self._buffer)

    @property
    def is_waiting(self) -> bool:
        """True while a request waits to be answered."""
        return self._context is not None

    def close(self, reason: str) -> None:
        """End the connection; what was sent before is still sent."""
        if not self.is_closed:
            logger.info("node %d ends the connection of %s: %s", self._server.node_id, self._client_host, reason)
            if self._transport is not None:
                self._transport.close()
            if self._held_up and self._transport is not None:
                self._transport.abort()
            self.is_closed = True

    def abort(self) -> None:
        """End the connection at once, as the end of the process would."""
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()
