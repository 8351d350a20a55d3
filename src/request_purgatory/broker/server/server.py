"""A node's listener and its connections."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from request_purgatory.aio import Purgatory
from request_purgatory.broker.listeners import Listener
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.server.connection import (
    READ_BYTES,
    Connection,
    HandleRequest,
    RefuseRequest,
)
from request_purgatory.broker.server.connection_limit import ConnectionLimit
from request_purgatory.broker.server.faults import ResponseFault
from request_purgatory.broker.server.login import SaslLogin
from request_purgatory.broker.server.memory_limits import RequestMemoryPool, UnreadResponses
from request_purgatory.broker.server.request_log import RequestLog
from request_purgatory.broker.server.security import Security
from request_purgatory.broker.server.throttled_channel import ThrottledChannel
from request_purgatory.broker.server.tls_listener import TlsListener
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.apis import ApiTable

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
        now_ms: Callable[[], int],
        request_log: RequestLog,
    ) -> None:
        """Create a server that does not listen yet.

        Args:
            node_id: The number of the node, for the log.
            settings: The limits on requests and connections.
            listeners: Where it listens.
            apis: The APIs whose requests are passed on, by key.
            handle: Handles a request, now or later.
            refuse: Answers a request that is not allowed with an error.
            security: The certificates and passwords of listeners that need some.
            take_response_fault: Returns the fault of a request's response, or None.
            throttle_purgatory: Where the connections of clients over their quota wait.
            connection_limit: Shared by the servers of the process.
            now_ms: Returns the event loop's time in milliseconds.
            request_log: Remembers requests and responses; shared by the servers of a cluster.
        """
        self.node_id = node_id
        self.settings = settings
        #: From `start` on with the ports in use.
        self.listeners = tuple(listeners)
        self.apis = apis
        self.handle = handle
        self.refuse = refuse
        self.take_response_fault = take_response_fault
        self.now_ms = now_ms
        self.request_log = request_log
        self.memory_pool = RequestMemoryPool(settings.queued_max_request_bytes)
        self.unread_responses = UnreadResponses(settings.queued_max_request_bytes)
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.connections: set[Connection] = set()
        #: Connections in their TLS handshake.
        self._handshakes: set[Connection] = set()
        self._throttle_purgatory = throttle_purgatory
        self._connection_limit = connection_limit
        self._security = security
        self._sockets: list[asyncio.Server | TlsListener] = []
        #: Bound to the ports of a stopped server, without listening.
        self._reserved: list[socket.socket] = []
        self._sweep: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Listen, and note the ports in use.

        Raises:
            OSError: A port is in use, or a host is no address of this machine.
        """
        for number, listener in enumerate(self.listeners):
            port = await self._listen(listener)
            bound = replace(listener, port=port)
            self.listeners = (*self.listeners[:number], bound, *self.listeners[number + 1 :])
        self._schedule_sweep()

    async def _listen(self, listener: Listener) -> int:
        """Start a listener.

        Returns:
            Its port.
        """
        # One socket: with a host that has several addresses, asyncio would take several free ports.
        family = _family(listener)
        bound = socket.create_server((listener.host, listener.port), family=family, backlog=BACKLOG)
        try:
            if listener.protocol.has_tls:
                assert self._security.tls is not None, "the settings require a certificate"
                server: asyncio.Server | TlsListener = TlsListener(
                    self, bound, self._security.tls, lambda: Connection(self, listener)
                )
            else:
                server = await asyncio.get_running_loop().create_server(
                    lambda: Connection(self, listener), sock=bound, backlog=BACKLOG
                )
        except BaseException:
            bound.close()
            raise
        self._sockets.append(server)
        port: int = bound.getsockname()[1]
        return port

    @property
    def host(self) -> str:
        """The address that the first listener is bound to."""
        return self.listeners[0].host

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.listeners[0].port

    def advertised(self, listener: str) -> tuple[str, int]:
        """Return the host and the port that clients of a listener are told to connect to."""
        return next(each.advertised for each in self.listeners if each.name == listener)

    def new_login(self, listener: Listener) -> SaslLogin | None:
        """Return the login of a new connection; None if its listener has no SASL."""
        if not listener.protocol.has_sasl:
            return None
        return SaslLogin(self.settings.sasl_mechanisms, self._security.credentials)

    def stop(self) -> None:
        """Stop listening, and abort every connection."""
        while self._sockets:
            self._sockets.pop().close()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections):
            connection.abort()

    def reserve_ports(self) -> None:
        """Keep the ports of a stopped server from other programs, and refuse connections.

        A program that asks for any free port does not get one of them; one that asks for this port
        may. Further calls do nothing.
        """
        if self._reserved:
            return
        for listener in self.listeners:
            if listener.port:
                with suppress(OSError):  # Another program was faster.
                    self._reserved.append(_bind(listener))

    def release_ports(self) -> None:
        """Undo `reserve_ports`."""
        while self._reserved:
            self._reserved.pop().close()

    # -- connections

    def register_handshake(self, connection: Connection) -> bool:
        """Register a connection that begins its TLS handshake.

        Returns:
            False if the server or the process has too many connections.
        """
        if not self._has_room:
            return False
        self._handshakes.add(connection)
        self._connection_limit.num_open += 1
        return True

    def unregister_handshake(self, connection: Connection) -> None:
        """Remove a handshake that has ended; no-op if it is not registered."""
        if connection in self._handshakes:
            self._handshakes.remove(connection)
            self._connection_limit.num_open -= 1

    @property
    def _has_room(self) -> bool:
        num_open = len(self.connections) + len(self._handshakes)
        return num_open < self.settings.max_connections and not self._connection_limit.is_reached

    def register(self, connection: Connection) -> bool:
        """Register a new connection.

        Returns:
            False if the server or the process has too many.
        """
        self.unregister_handshake(connection)
        if not self._has_room:
            return False
        self.connections.add(connection)
        self._connection_limit.num_open += 1
        return True

    def unregister(self, connection: Connection) -> None:
        """Remove a connection that has ended; no-op if it was not registered."""
        if connection in self.connections:
            self.connections.remove(connection)
            self._connection_limit.num_open -= 1

    def throttle(self, connection: Connection, throttle_ms: int) -> None:
        """Call the connection's `unmute` after the throttle time."""
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
            elif connection.is_receiving_too_long(now_ms, INCOMPLETE_REQUEST_TIMEOUT_MS):
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
    """Return a socket that is bound to a listener's port as `socket.create_server` does.

    Raises:
        OSError: The port is taken.
    """
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
