"""A node's listener and its connections."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from purgatory_broker._wire.apis import ApiTable
from purgatory_broker.listeners import Listener
from purgatory_broker.request_context import RequestContext
from purgatory_broker.server.connection import READ_BYTES, Connection, HandleRequest, RefuseRequest
from purgatory_broker.server.faults import ResponseFault
from purgatory_broker.server.memory_limits import RequestMemoryPool, UnreadResponses
from purgatory_broker.server.request_log import RequestLog
from purgatory_broker.server.response_writer import ResponseWriter
from purgatory_broker.server.sasl import SaslLogin
from purgatory_broker.server.security import Security
from purgatory_broker.server.socket_listener import SocketListener
from purgatory_broker.settings import ClusterSettings
from request_purgatory.aio import Purgatory
from request_purgatory.purgatory.operation import DelayedOperation


class ThrottledChannel(DelayedOperation):
    """A throttled connection, read again when the timeout expires; its identity is the key."""

    __slots__ = ("unmute",)

    def __init__(self, throttle_ms: int, unmute: Callable[[], None]) -> None:
        super().__init__(throttle_ms)
        self.unmute = unmute

    def try_complete(self) -> bool:
        """Return False: only the timeout completes the operation."""
        return False

    def on_complete(self) -> None:
        self.unmute()


#: The share of the process's open files that connections may take.
_CONNECTION_FILES_SHARE = 0.75


class ConnectionLimit:
    """Counts the open connections of all servers that share it, against the process's limit."""

    def __init__(self) -> None:
        self.num_open = 0

    @property
    def is_reached(self) -> bool:
        return self.num_open >= _max_connections()


def _max_connections() -> int:
    """Return how many may be open: without a free file, the loop could not accept one to close."""
    try:
        import resource
    except ImportError:
        return sys.maxsize
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else int(files * _CONNECTION_FILES_SHARE)


#: A connection is closed if a request is incomplete after this time. A closed connection is aborted
#: if its client has not read its responses after this time.
INCOMPLETE_REQUEST_TIMEOUT_MS = 30_000
#: A connection is closed if its client has not read a response for this time, and other connections
#: wait for the memory of unread responses.
UNREAD_RESPONSE_TIMEOUT_MS = 10_000
SWEEP_INTERVAL_MS = 5_000
BACKLOG = 4_096


class Server:
    """Listens on a node's listeners, and passes the requests of its connections to a handler."""

    def __init__(
        self,
        node_id: int,
        settings: ClusterSettings,
        listeners: Sequence[Listener],
        apis: ApiTable,
        handle: HandleRequest,
        *,
        refuse: RefuseRequest,
        security: Security,
        take_response_fault: Callable[[RequestContext], ResponseFault | None],
        throttle_purgatory: Purgatory,
        connection_limit: ConnectionLimit,
        max_connections: Callable[[], int],
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        request_log: RequestLog,
    ) -> None:
        self.node_id = node_id
        self.settings = settings
        #: From `start` on with the ports in use.
        self.listeners = tuple(listeners)
        #: The host and port of each listener's socket.
        self.addresses: set[tuple[str, int]] = set()
        self.apis = apis
        self.handle = handle
        self.refuse = refuse
        self.take_response_fault = take_response_fault
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        self.request_log = request_log
        self.memory_pool = RequestMemoryPool(settings.queued_max_request_bytes)
        self.unread_responses = UnreadResponses(settings.queued_max_request_bytes)
        self.responses = ResponseWriter()
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.connections: set[Connection] = set()
        #: Accepted connections until they are made, after the TLS handshake if there is one.
        self._accepted: set[Connection] = set()
        self._throttle_purgatory = throttle_purgatory
        self._connection_limit = connection_limit
        self._max_connections = max_connections
        self._security = security
        self.is_stopped = False
        self._sockets: list[SocketListener] = []
        #: Bound to the ports of a stopped server, without listening.
        self._reserved: list[socket.socket] = []
        self._sweep: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Listen. A start that raises leaves what it has begun to `stop`."""
        for number, listener in enumerate(self.listeners):
            port = self._listen(listener)
            bound = replace(listener, port=port)
            self.listeners = (*self.listeners[:number], bound, *self.listeners[number + 1 :])
        self._schedule_sweep()

    def _listen(self, listener: Listener) -> int:
        port: int
        tls = self._security.tls if listener.protocol.has_tls else None
        assert tls or not listener.protocol.has_tls, "the settings require a certificate"
        family = _family(listener)
        bound = socket.create_server((listener.host, listener.port), family=family, backlog=BACKLOG)
        host, port, *_ = bound.getsockname()
        self.addresses.add((host, port))
        try:
            self._sockets.append(
                SocketListener(
                    self.node_id,
                    bound,
                    tls,
                    lambda: Connection(self, listener),
                    register=partial(self._admit, self._accepted),
                    unregister=partial(self._dismiss, self._accepted),
                )
            )
        except BaseException:
            bound.close()
            raise
        return port

    def advertised(self, listener: str) -> tuple[str, int]:
        """Return the host and the port that clients of a listener are told to connect to."""
        return next(one.advertised for one in self.listeners if one.name == listener)

    def new_login(self, listener: Listener, renewed: SaslLogin | None = None) -> SaslLogin | None:
        if not listener.protocol.has_sasl:
            return None
        return SaslLogin(
            self.settings.sasl_mechanisms,
            self._security.credentials,
            wall_ms=self.wall_ms,
            max_session_ms=self.settings.connections_max_reauth_ms,
            renewed=renewed,
        )

    def stop(self) -> None:
        self.is_stopped = True
        while self._sockets:
            self._sockets.pop().close()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections):
            connection.abort()

    def reserve_ports(self) -> None:
        """Keep the ports from programs that ask for any free one; further calls do nothing."""
        if self._reserved:
            return
        for listener in self.listeners:
            if listener.port:
                with suppress(OSError):  # Another program was faster.
                    self._reserved.append(_bind(listener))

    def release_ports(self) -> None:
        while self._reserved:
            self._reserved.pop().close()

    # -- connections

    def register(self, connection: Connection) -> bool:
        self._dismiss(self._accepted, connection)
        return self._admit(self.connections, connection)

    def unregister(self, connection: Connection) -> None:
        self._dismiss(self.connections, connection)

    def _admit(self, admitted: set[Connection], connection: Connection) -> bool:
        num_open = len(self.connections) + len(self._accepted)
        if num_open >= self._max_connections() or self._connection_limit.is_reached:
            return False
        admitted.add(connection)
        self._connection_limit.num_open += 1
        return True

    def _dismiss(self, admitted: set[Connection], connection: Connection) -> None:
        if connection in admitted:
            admitted.remove(connection)
            self._connection_limit.num_open -= 1

    def throttle(self, connection: Connection, throttle_ms: int) -> None:
        operation = ThrottledChannel(throttle_ms, connection.unmute)
        self._throttle_purgatory.try_complete_else_watch(operation, [id(connection)])

    def _schedule_sweep(self) -> None:
        interval_ms = max(1, min(SWEEP_INTERVAL_MS, self.settings.connections_max_idle_ms))
        self._sweep = asyncio.get_running_loop().call_later(interval_ms / 1_000, self._run_sweep)

    def _run_sweep(self) -> None:
        """Close the connections that have been idle, or have kept the server waiting, too long."""
        now_ms = self.now_ms()
        for connection in list(self.connections):
            idle_ms = now_ms - connection.last_active_ms
            if connection.is_closed:
                if idle_ms >= INCOMPLETE_REQUEST_TIMEOUT_MS:
                    connection.abort()
            elif connection.frames.is_receiving_too_long(now_ms, INCOMPLETE_REQUEST_TIMEOUT_MS):
                connection.close(
                    f"a request is incomplete after {INCOMPLETE_REQUEST_TIMEOUT_MS} ms"
                )
            elif (
                not self.unread_responses.has_room(is_fetch=True)
                and self.unread_responses.age_ms(connection, now_ms) >= UNREAD_RESPONSE_TIMEOUT_MS
            ):
                connection.close(
                    f"a response is unread after {UNREAD_RESPONSE_TIMEOUT_MS} ms, and other "
                    "connections wait"
                )
            elif (
                not connection.is_request_pending
                and idle_ms >= self.settings.connections_max_idle_ms
            ):
                connection.close(f"idle for {idle_ms} ms")
        self._schedule_sweep()


def _family(listener: Listener) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in listener.host else socket.AF_INET


def _bind(listener: Listener) -> socket.socket:
    """Return a socket that is bound to a listener's port as `socket.create_server` does."""
    bound = socket.socket(_family(listener), socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((listener.host, listener.port))
    except BaseException:
        bound.close()
        raise
    return bound
