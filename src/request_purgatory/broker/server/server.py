"""A node's listener and its connections."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.server.connection import Connection
from request_purgatory.broker.server.faults import Faults, ResponseFault
from request_purgatory.broker.server.memory_limits import RequestMemoryPool, UnreadResponses
from request_purgatory.broker.server.throttled_channel import ThrottledChannel
from request_purgatory.broker.wire.error_response import error_response
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.broker.wire.messages import encode_response

if TYPE_CHECKING:
    from request_purgatory.aio import Purgatory
    from request_purgatory.broker.replication.recorder import Recorder
    from request_purgatory.broker.settings import ClusterSettings

logger = logging.getLogger(__name__)

#: A connection is closed if a request is incomplete after this time. A closed connection is aborted
#: if its client has not read its responses after this time.
INCOMPLETE_REQUEST_TIMEOUT_MS = 30_000
#: A connection is closed if its client has not read a response for this time, and other connections
#: wait for the memory of unread responses.
UNREAD_RESPONSE_TIMEOUT_MS = 10_000
SWEEP_INTERVAL_MS = 5_000
#: The share of the process's open files that the connections of all nodes may take.
_CONNECTION_FILES_SHARE = 0.75
BACKLOG = 4_096


class ServerCluster(Protocol):
    """What a server needs of its cluster."""

    @property
    def nodes(self) -> Sequence[ServerNode]:
        """The nodes that run in this process."""

    @property
    def faults(self) -> Faults:
        """The injected faults."""


class ServerNode(Protocol):
    """What a server needs of its node."""

    @property
    def node_id(self) -> int:
        """The number of the node."""

    @property
    def settings(self) -> ClusterSettings:
        """The settings of the cluster."""

    @property
    def cluster(self) -> ServerCluster:
        """The cluster of the node."""

    @property
    def server(self) -> Server:
        """The node's server."""

    @property
    def recorder(self) -> Recorder | None:
        """The recorder of requests, if any."""

    @property
    def purgatories(self) -> Mapping[str, Purgatory]:
        """The purgatories by name."""

    def now_ms(self) -> int:
        """Return the event loop's time in milliseconds."""

    def handle(self, context: RequestContext, request: Any) -> None:
        """Handle a request, now or later."""


def _max_connections() -> int:
    """Return the most connections that the process may have; without limit if it is unknown.

    With more connections than open files the event loop could not even accept one to close it.
    """
    try:
        import resource
    except ImportError:
        return sys.maxsize
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else int(files * _CONNECTION_FILES_SHARE)


class Server:
    """Listens on loopback for one node, and passes requests to it."""

    def __init__(self, node: ServerNode, host: str, port: int) -> None:
        """Create a server that does not listen yet; port 0 is a free port."""
        self._node = node
        self.node_id = node.node_id
        self.settings = node.settings
        self.host = host
        self.port = port
        self.memory_pool = RequestMemoryPool(self.settings.queued_max_request_bytes)
        self.unread_responses = UnreadResponses(self.settings.queued_max_request_bytes)
        self.connections: set[Connection] = set()
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

    def now_ms(self) -> int:
        """Return the event loop's time in milliseconds."""
        return self._node.now_ms()

    # -- connections

    def register(self, connection: Connection) -> bool:
        """Register a new connection.

        Returns:
            False if the server or the process has too many.
        """
        in_process = sum(len(node.server.connections) for node in self._node.cluster.nodes)
        if (
            len(self.connections) >= self.settings.max_connections
            or in_process >= _max_connections()
        ):
            return False
        self.connections.add(connection)
        return True

    def unregister(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self.connections.discard(connection)

    def throttle(self, connection: Connection, throttle_ms: int) -> None:
        """Call the connection's `unmute` after the throttle time."""
        operation = ThrottledChannel(throttle_ms, connection.unmute)
        self._node.purgatories["Throttle"].try_complete_else_watch(operation, [id(connection)])

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

    # -- requests

    def handle(self, context: RequestContext, request: Any) -> None:
        """Pass a request to the node, unless an injected error answers it.

        Args:
            context: The request's context.
            request: The decoded request; None for an unsupported version of ApiVersions.
        """
        node, api = self._node, context.header.api
        if node.recorder is not None:
            node.recorder.request(self.node_id, context, request)
        code = None
        if request is not None:
            code = node.cluster.faults.take_request_error(self.node_id, api)
        if code is not None:
            context.reply(error_response(api, request, code))
            return
        node.handle(context, request)

    def send_response(self, connection: Connection, context: RequestContext, response: Any) -> None:
        """Encode a response and write it to the connection, with an injected fault if any.

        Args:
            connection: The connection of the request.
            context: The request's context.
            response: The response; None for a request without a response.
        """
        api = context.header.api
        if self._node.recorder is not None:
            self._node.recorder.response(self.node_id, context)
        if response is None:
            connection.write(context, None)
            return
        try:
            frame = encode_response(context.header, response)
        except WireError as error:
            connection.close(str(error))
            return
        except Exception:
            logger.exception(
                "node %d can't encode its %s response: %r", self.node_id, api.name, response
            )
            connection.close(f"the {api.name} response can't be encoded")
            return
        fault = self._node.cluster.faults.take_response_fault(self.node_id, api)
        if fault is None:
            connection.write(context, frame)
        else:
            self._apply_fault(fault, connection, context, frame)

    def _apply_fault(
        self, fault: ResponseFault, connection: Connection, context: RequestContext, frame: bytes
    ) -> None:
        if fault.kind == "delay":
            asyncio.get_running_loop().call_later(
                fault.delay_ms / 1_000, connection.write, context, frame
            )
        elif fault.kind == "corrupt":
            connection.write(context, fault.corrupt(frame))
        elif fault.kind == "disconnect":
            connection.abort()
        # After `drop` the request has no response, and no later one on this connection is handled.
