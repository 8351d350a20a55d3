"""A client's connection: reads requests one at a time, and writes their responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

from purgatory_broker._wire.apis import Api, ApiTable
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.messages import (
    encode_response,
    read_header,
    read_request,
    with_size,
)
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.listeners import Listener
from purgatory_broker.request_context import Client, LoginFailedError, RequestContext
from purgatory_broker.server.client_address import address_text
from purgatory_broker.server.faults import ResponseFault
from purgatory_broker.server.frame_buffer import FrameBuffer
from purgatory_broker.server.memory_limits import RequestMemoryPool, UnreadResponses
from purgatory_broker.server.request_log import LoggedRequest, RequestLog
from purgatory_broker.server.response_writer import ResponseWriter
from purgatory_broker.server.sasl import MAX_REQUEST_BYTES as MAX_LOGIN_BYTES
from purgatory_broker.server.sasl import SaslLogin
from purgatory_broker.server.security import distinguished_name
from purgatory_broker.settings import ClusterSettings
from request_purgatory.error_log import ErrorLog

logger = logging.getLogger(__name__)
_errors = ErrorLog(logger)

#: Answers a request that is not allowed with an error, without handling it.
RefuseRequest: TypeAlias = Callable[[RequestContext, Any, ErrorCode], None]
#: Handles a request, now or later: its context, which takes the response, and the decoded request;
#: None for an unsupported version of ApiVersions.
HandleRequest: TypeAlias = Callable[[RequestContext, Any], None]

#: The most bytes that the event loop reads at once.
READ_BYTES = 262_144
#: The most requests of a connection that are handled before other connections get their turn.
REQUESTS_PER_TURN = 64
#: As in Kafka, a client that has logged in again may not do so at once once more.
MIN_RENEWAL_INTERVAL_MS = 1_000


class _ConnectionServer(Protocol):
    node_id: int
    settings: ClusterSettings
    apis: ApiTable
    memory_pool: RequestMemoryPool
    unread_responses: UnreadResponses
    responses: ResponseWriter
    #: What the event loop reads into, for one connection at a time: READ_BYTES.
    read_buffer: memoryview
    handle: HandleRequest
    refuse: RefuseRequest
    take_response_fault: Callable[[RequestContext], ResponseFault | None]
    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    request_log: RequestLog
    is_stopped: bool

    def register(self, connection: Connection) -> bool: ...

    def unregister(self, connection: Connection) -> None: ...

    def new_login(
        self, listener: Listener, renewed: SaslLogin | None = None
    ) -> SaslLogin | None: ...

    def throttle(self, connection: Connection, throttle_ms: int) -> None: ...


@dataclass(slots=True, eq=False, repr=False)  # asyncio logs it, and its fields have secrets.
class Connection(asyncio.BufferedProtocol):
    """One connection of a server.

    As in Kafka, requests are handled in order, one at a time. The next request is handled after the
    response to the one before has been written and the client has read enough of it.

    All connections of a server share the buffer that the event loop reads into. Otherwise each read
    allocates 256 KiB, which takes longer than the read itself.
    """

    _server: _ConnectionServer
    _listener: Listener
    #: None if the client needs no login, or is logged in.
    _login: SaslLogin | None = field(init=False)
    #: The last complete login, if its session ends.
    _session: SaslLogin | None = field(init=False, default=None)
    #: When the session was last renewed, as a time of day.
    _renewed_ms: int = field(init=False, default=0)
    _now_ms: Callable[[], int] = field(init=False)
    #: The sender of the last request, and most likely of the next one.
    _client: Client = field(init=False)
    last_active_ms: int = field(init=False)
    _transport: asyncio.Transport | None = None
    frames: FrameBuffer = field(init=False)
    #: A complete frame that waits until clients have read their responses.
    _deferred_frame: bytes | None = None
    #: The request that is being handled.
    _context: RequestContext | None = None
    #: Its entry in the log.
    _logged: LoggedRequest | None = None
    _is_processing: bool = False
    _is_reading_paused: bool = False
    #: The client does not read its responses.
    _is_writing_paused: bool = False
    #: The client is throttled.
    _is_muted: bool = False
    is_closed: bool = False
    #: What is called at its end.
    _ends: dict[str, Callable[[], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._login = self._server.new_login(self._listener)
        self._now_ms = self._server.now_ms
        self.frames = FrameBuffer(self._server.memory_pool, self._now_ms)
        self._client = Client("", "unknown", self._listener.name)
        self.last_active_ms = self._now_ms()

    # -- callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, since uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            # The format of Java's `InetAddress.toString` for an address without a name.
            self._client = self._client._replace(client_host=f"/{address_text(peer)}")
        certificate = transport.get_extra_info("peercert")
        if certificate:
            user = distinguished_name(certificate["subject"])
            self._client = self._client._replace(user=user)
        if self._server.is_stopped:
            self.abort()  # It was accepted before.
        elif not self._server.register(self):
            self.close("too many connections")

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._server.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active_ms = self._now_ms()
        self.frames.add(self._server.read_buffer[:nbytes])
        self._process_requests()

    def eof_received(self) -> bool:
        """Close the connection: as in Kafka, a half-closed connection gets no more responses."""
        self.is_closed = True
        self.last_active_ms = self._now_ms()
        self._cancel_request()
        if self._transport is not None:
            self._server.responses.flush_one(self._transport)
            if self._is_writing_paused:
                self._transport.abort()
        return False

    def pause_writing(self) -> None:
        """Handle no more requests: the client does not read."""
        self._is_writing_paused = True
        if self._transport is not None:
            self._server.unread_responses.add(
                self, self._transport.get_write_buffer_size(), self._now_ms()
            )

    def resume_writing(self) -> None:
        """Continue with the next request: the client has read."""
        self._is_writing_paused = False
        self._server.unread_responses.remove(self)
        self._process_requests()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self.is_closed = True
        if self._transport is not None:
            self._server.responses.drop(self._transport)
        self._server.unread_responses.remove(self)
        self._cancel_request()
        while self._ends:
            self._ends.popitem()[1]()
        self._server.unregister(self)

    def _cancel_request(self) -> None:
        self.frames.clear(self._process_requests)
        self._deferred_frame = None
        self._server.unread_responses.cancel_wait(self._process_requests)
        if self._context is not None:
            self._context.cancel()
            self._context = None

    # -- requests

    def _process_requests(self) -> None:
        """Handle complete frames until a request has to wait, or the connection's turn is over."""
        if self._is_processing:
            return  # A response was sent inside the loop below, which continues.
        self._is_processing = True
        requests = 0
        try:
            while self._context is None and not (
                self._is_writing_paused or self._is_muted or self.is_closed
            ):
                if requests == REQUESTS_PER_TURN:
                    asyncio.get_running_loop().call_soon(self._process_requests)
                    break
                frame = self._deferred_frame or self._next_frame()
                if frame is None or not self._handle_frame(frame):
                    break
                requests += 1
        except WireError as error:
            self.close(str(error))
        finally:
            self._is_processing = False
        self._update_reading()

    def _next_frame(self) -> bytes | None:
        limit = self._server.settings.socket_request_max_bytes
        if self._login is not None:
            limit = min(limit, MAX_LOGIN_BYTES)
        return self.frames.next_frame(limit, self._process_requests)

    def _handle_frame(self, frame: bytes) -> bool:
        """Return False if it is deferred until other clients have read their responses."""
        login = self._login
        if login is not None and login.has_bare_tokens:
            self._handle_token(login, frame)
            return True
        header = read_header(frame, self._server.apis)
        if self._session is not None and login is None:
            login = self._renew_session(self._session, header.api)
        is_allowed = login is None or login.check(header.api)
        if not self._server.unread_responses.has_room(is_fetch=header.api.holds_records):
            self._deferred_frame = frame
            self._server.unread_responses.wait(self._process_requests)
            return False
        self._deferred_frame = None
        request = read_request(frame, header) if header.is_supported else None
        client_id = header.client_id or ""
        if client_id != self._client.client_id:
            self._client = self._client._replace(client_id=client_id)
        self._logged = self._server.request_log.received(self._server.node_id, header, frame)
        self._context = context = RequestContext(header, self._client, self._respond, self.close)
        context.login = login
        context.connection_ends = self._ends
        if is_allowed:
            self._server.handle(context, request)
        else:
            context.close_reason = f"{header.api.name} is not allowed during the login"
            self._server.refuse(context, request, ErrorCode.ILLEGAL_SASL_STATE)
        return True

    def _renew_session(self, session: SaslLogin, api: Api) -> SaslLogin | None:
        """Return the login that a request begins, if it does; no other may come too late."""
        now_ms = self._server.wall_ms()
        if api.name == "SaslHandshake" and now_ms - self._renewed_ms >= MIN_RENEWAL_INTERVAL_MS:
            self._renewed_ms = now_ms
            self._login = self._server.new_login(self._listener, session)
            return self._login
        if session.session_ends_ms is not None and now_ms > session.session_ends_ms:
            raise WireError("the session has ended without another login")
        return None

    def _handle_token(self, login: SaslLogin, token: bytes) -> None:
        """Handle a token of the login that comes without a header, and answer likewise."""
        try:
            answer = login.evaluate(token)
        except LoginFailedError as error:
            self.close(f"login failed: {error}")
            return
        if self._transport is not None:
            self._server.responses.add(self._transport, with_size(answer))
        self._end_login()

    def _end_login(self) -> None:
        if self._login is not None and self._login.is_complete:
            self._client = self._client._replace(user=self._login.user)
            self._session = None if self._login.session_ends_ms is None else self._login
            self._login = None

    def _respond(self, context: RequestContext, response: Any) -> None:
        """Encode and write a response, with an injected fault if any; None if it has none."""
        if context is not self._context:
            return  # The connection has ended in the meantime.
        if context.on_response is not None:
            context.on_response()
        if response is None:
            self._log_response(None)
            self._write(context, None)
            return
        api = context.header.api
        try:
            frame = encode_response(context.header, response)
        except WireError as error:
            self.close(str(error))
            return
        except Exception as error:
            shown = "(hidden)" if api.secrets else response
            _errors.log(
                error,
                "node %d can't encode its %s response: %s",
                self._server.node_id,
                api.name,
                shown,
            )
            self.close(f"the {api.name} response can't be encoded")
            return
        self._log_response(frame)
        fault = self._server.take_response_fault(context)
        if fault is None:
            self._write(context, frame)
        else:
            fault.apply(frame, partial(self._write, context), self.abort)

    def _log_response(self, frame: bytes | bytearray | None) -> None:
        if self._logged is not None:
            self._server.request_log.answered(self._logged, frame)
            self._logged = None

    def _write(self, context: RequestContext, frame: bytes | bytearray | None) -> None:
        """No-op for another request's response; None is for one without. The frame is final."""
        if self.is_closed or context is not self._context or self._transport is None:
            return
        if frame is not None:
            self._server.responses.add(self._transport, frame)
        self._context = None
        self.last_active_ms = self._now_ms()
        self.frames.release_memory()
        self._end_login()
        if context.software is not None:
            self._client = self._client._replace(software=context.software)
        if context.close_reason is not None:
            # Some clients drop the response to a failed login if the connection closes at once.
            self._is_muted = True
            delay_ms = self._server.settings.connection_failed_authentication_delay_ms
            loop = asyncio.get_running_loop()
            loop.call_later(delay_ms / 1_000, self.close, context.close_reason)
            return
        if context.throttle_ms > 0:
            self._is_muted = True
            self._server.throttle(self, context.throttle_ms)
        # Most clients wait for a response before they send the next request.
        if self.frames.has_data:
            self._process_requests()

    def unmute(self) -> None:
        """Continue with the next request: the throttle time is over."""
        self._is_muted = False
        if not self.is_closed:
            self._process_requests()

    def _update_reading(self) -> None:
        """Pause reading while the buffer is full, and resume it otherwise."""
        has_read_ahead = self.frames.has_read_ahead
        if not (has_read_ahead or self._is_reading_paused):
            return
        transport = self._transport
        if transport is None or self.is_closed or transport.is_closing():
            return
        # A frame with allocated memory is received completely. All other bytes are limited.
        is_limited = not self.frames.is_receiving_large or self.is_request_pending
        is_full = is_limited and has_read_ahead
        if is_full != self._is_reading_paused:
            self._is_reading_paused = is_full
            if is_full:
                transport.pause_reading()
            else:
                transport.resume_reading()

    # -- the end

    @property
    def is_request_pending(self) -> bool:
        return self._context is not None or self._deferred_frame is not None

    def close(self, reason: str) -> None:
        """Close the connection; a client that reads still gets the responses already written."""
        if not self.is_closed:
            logger.info(
                "node %d closes the connection of %s: %s",
                self._server.node_id,
                self._client.client_host,
                reason,
            )
            self.last_active_ms = self._now_ms()
            if self._transport is not None:
                self._server.responses.flush_one(self._transport)
                self._transport.close()
                if self._is_writing_paused:
                    self._transport.abort()
            self.is_closed = True

    def abort(self) -> None:
        """Close the connection at once, as the end of the process does."""
        self.is_closed = True
        if self._transport is not None:
            self._server.responses.flush_one(self._transport)
            self._transport.abort()
