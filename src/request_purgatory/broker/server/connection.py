"""A client's connection: bytes to requests, one at a time, and responses to bytes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

from request_purgatory.broker.server.request_context import Client, RequestContext
from request_purgatory.broker.wire.apis import FETCH
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.broker.wire.frame import SIZE_BYTES, frame_size
from request_purgatory.broker.wire.messages import Header, read_header, read_request

if TYPE_CHECKING:
    from request_purgatory.broker.server.server import Server

logger = logging.getLogger(__name__)

#: How much may come in while a request is handled, before the connection is not read on. Every
#: connection may have so much, and what the loop reads at a time (256 KiB); so requests up to this
#: size need not be granted their bytes.
READ_AHEAD_BYTES = 65_536
#: Requests that came in together are handled without a pause for others, but no more than so many.
REQUESTS_PER_TURN = 64


class Connection(asyncio.Protocol):
    """One connection of a node.

    Requests are handled in order, one in flight at a time as in Kafka: until one is answered, and
    the client has taken the answer, the next is left where it is.
    """

    __slots__ = (
        "_awaited_since_ms",
        "_budgeted",
        "_buffer",
        "_client_host",
        "_context",
        "_handling",
        "_held_up",
        "_muted",
        "_postponed",
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
        #: The size of the frame that comes in, -1 between frames; how many bytes were granted for
        #: it; and since when nothing but the client keeps it from being complete.
        self._size = -1
        self._budgeted = 0
        self._awaited_since_ms: int | None = None
        #: A request that has come in, and waits for clients to take their answers.
        self._postponed: bytes | None = None
        self._context: RequestContext | None = None
        self._handling = False
        #: The client does not take what it was sent; the connection is throttled.
        self._held_up = False
        self._muted = False
        self._client_host = "unknown"
        self.is_closed = False
        self.active_ms = server.now_ms()

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # By what it is for: uvloop's transports are of no class of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            # As Java writes an address that has no name.
            self._client_host = f"/{peer[0]}"
        if not self._server.admit(self):
            self.close("there are as many connections as there may be")

    def data_received(self, data: bytes) -> None:
        self.active_ms = self._server.now_ms()
        self._buffer += data
        self._advance()

    def eof_received(self) -> bool:
        """The client sends nothing more: as in Kafka, it is not answered any more either."""
        self.is_closed = True
        self.active_ms = self._server.now_ms()
        self._abandon()
        if self._held_up and self._transport is not None:
            self._transport.abort()
        return False

    def pause_writing(self) -> None:
        self._held_up = True
        if self._transport is not None:
            self._server.unread.add(
                self, self._transport.get_write_buffer_size(), self._server.now_ms()
            )

    def resume_writing(self) -> None:
        self._held_up = False
        self._server.unread.remove(self)
        self._advance()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self.is_closed = True
        self._server.unread.remove(self)
        self._abandon()
        self._server.forget(self)

    def _abandon(self) -> None:
        self._free()
        self._buffer.clear()
        self._postponed = None
        self._server.budget.forget(self._advance)
        self._server.unread.forget(self._advance)
        if self._context is not None:
            self._context.abandon()
            self._context = None

    # -- requests

    def _advance(self) -> None:
        """Handle what has come in, as far as the connection may."""
        if self._handling:
            return  # By a reply inside the loop below.
        self._handling = True
        turns = 0
        try:
            while self._context is None and not (self._held_up or self._muted or self.is_closed):
                if turns == REQUESTS_PER_TURN:
                    asyncio.get_running_loop().call_soon(self._advance)
                    break
                frame = self._postponed or self._next_frame()
                if frame is None or not self._handle(frame):
                    break
                turns += 1
        except WireError as error:
            self.close(str(error))
        finally:
            self._handling = False
        self._read_on_or_pause()

    def _next_frame(self) -> bytes | None:
        if self._awaited_since_ms is None and self._buffer:
            self._awaited_since_ms = self._server.now_ms()
        if self._size < 0:
            if len(self._buffer) < SIZE_BYTES:
                return None
            self._size = frame_size(self._buffer, self._server.settings.socket_request_max_bytes)
        if not self._budgeted and self._size > READ_AHEAD_BYTES:
            if not self._server.budget.take(self._size):
                self._awaited_since_ms = None
                self._server.budget.await_room(self._advance)
                return None
            self._budgeted = self._size
        end = SIZE_BYTES + self._size
        if len(self._buffer) < end:
            return None
        frame = bytes(memoryview(self._buffer)[SIZE_BYTES:end])
        del self._buffer[:end]
        self._size = -1
        self._awaited_since_ms = None
        return frame

    def _handle(self, frame: bytes) -> bool:
        """Have a request answered, now or later.

        False if it has to wait for other clients to take their answers.
        """
        header = read_header(frame)
        if not self._server.unread.has_room(is_fetch=header.api is FETCH):
            self._postponed = frame
            self._server.unread.await_room(self._advance)
            return False
        self._postponed = None
        request = read_request(frame, header) if header.is_served else None
        self._context = context = self._new_context(header)
        self._server.handle(context, request)
        return True

    def _new_context(self, header: Header) -> RequestContext:
        client = Client(header.client_id or "", self._client_host)
        return RequestContext(header, client, self._server.now_ms(), self._send, self.close)

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
        waits = not self._budgeted or self._context is not None or self._postponed is not None
        full = waits and len(self._buffer) > READ_AHEAD_BYTES
        if full and transport.is_reading():
            transport.pause_reading()
        elif not full and not transport.is_reading():
            transport.resume_reading()

    # -- the end

    def is_stalled(self, now_ms: int, longest_ms: int) -> bool:
        """True if a request has been coming in for so long and is not complete, however many of its bytes still come."""
        since_ms = self._awaited_since_ms
        return since_ms is not None and now_ms - since_ms >= longest_ms

    @property
    def is_waiting(self) -> bool:
        """True while a request waits to be answered."""
        return self._context is not None or self._postponed is not None

    def close(self, reason: str) -> None:
        """End the connection; what was sent before is still sent, if the client takes it."""
        if not self.is_closed:
            logger.info(
                "node %d ends the connection of %s: %s",
                self._server.node_id,
                self._client_host,
                reason,
            )
            self.active_ms = self._server.now_ms()
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
