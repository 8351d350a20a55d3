"""A node's listener and its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from request_purgatory.aio import Purgatory
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.server.connection import Connection, HandleRequest
from request_purgatory.broker.server.connection_limit import ConnectionLimit
from request_purgatory.broker.server.faults import ResponseFault
from request_purgatory.broker.server.memory_limits import RequestMemoryPool, UnreadResponses
from request_purgatory.broker.server.request_log import RequestLog
from request_purgatory.broker.server.throttled_channel import ThrottledChannel
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.apis import ApiTable

#: The address that servers listen on.
LOOPBACK = "127.0.0.1"
#: A connection is closed if a request is incomplete after this time. A closed connection is aborted
#: if its client has not read its responses after this time.
INCOMPLETE_REQUEST_TIMEOUT_MS = 30_000
#: A connection is closed if its client has not read a response for this time, and other connections
#: wait for the memory of unread responses.
UNREAD_RESPONSE_TIMEOUT_MS = 10_000
SWEEP_INTERVAL_MS = 5_000
BACKLOG = 4_096


class Server:
    """Listens on loopback, and passes the requests of its connections to a handler."""

    host = LOOPBACK

    def __init__(
        self,
        node_id: int,
        settings: ClusterSettings,
        port: int,
        apis: ApiTable,
        handle: HandleRequest,
        *,
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
            port: The TCP port; 0 takes a free one.
            apis: The APIs whose requests are passed on, by key.
            handle: Handles a request, now or later.
            take_response_fault: Returns the fault of a request's response, or None.
            throttle_purgatory: Where the connections of clients over their quota wait.
            connection_limit: Shared by the servers of the process.
            now_ms: Returns the event loop's time in milliseconds.
            request_log: Remembers requests and responses; shared by the servers of a cluster.
        """
        self.node_id = node_id
        self.settings = settings
        self.port = port
        self.apis = apis
        self.handle = handle
        self.take_response_fault = take_response_fault
        self.now_ms = now_ms
        self.request_log = request_log
        self.memory_pool = RequestMemoryPool(settings.queued_max_request_bytes)
        self.unread_responses = UnreadResponses(settings.queued_max_request_bytes)
        self.connections: set[Connection] = set()
        self._throttle_purgatory = throttle_purgatory
        self._connection_limit = connection_limit
        self._listener: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Listen, and set `port` to the port in use."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self), self.host, self.port, backlog=BACKLOG
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        self._schedule_sweep()

    def stop(self) -> None:
        """Stop listening, and abort every connection."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections):
            connection.abort()

    # -- connections

    def register(self, connection: Connection) -> bool:
        """Register a new connection.

        Returns:
            False if the server or the process has too many.
        """
        has_too_many = len(self.connections) >= self.settings.max_connections
        if has_too_many or self._connection_limit.is_reached:
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
