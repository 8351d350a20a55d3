"""A node's listener and its connections."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

from request_purgatory.broker.api import handle
from request_purgatory.broker.server.connection import Connection
from request_purgatory.broker.server.delayed_throttle import ThrottledChannel
from request_purgatory.broker.server.faults import ResponseFault
from request_purgatory.broker.server.memory_limits import RequestBudget, UnreadAnswers
from request_purgatory.broker.server.request_context import RequestContext
from request_purgatory.broker.wire.error_response import error_response
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.broker.wire.messages import response_frame

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.node import Node

logger = logging.getLogger(__name__)

#: A request that is not complete so long after it was let in ends its connection; so does, once it
#: is closed, one whose client does not take what it was sent.
STALLED_MS = 30_000
#: Where others wait for answers to be taken, who has not taken one for so long is cut off.
UNREAD_MS = 10_000
SWEEP_EVERY_MS = 5_000
#: How much of the process's open files the connections of all nodes may be.
_FILES_FOR_CONNECTIONS = 0.75
BACKLOG = 4_096


def _most_connections() -> int:
    """Beyond which the loop could soon accept none.

    Where the system does not say, without limit.
    """
    try:
        import resource
    except ImportError:
        return sys.maxsize
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else int(files * _FILES_FOR_CONNECTIONS)


class Server:
    """Listens on loopback for one node, and hands requests to it."""

    def __init__(self, node: Node, host: str, port: int) -> None:
        self.node = node
        self.node_id = node.node_id
        self.settings = node.settings
        self.host = host
        self.port = port
        self.budget = RequestBudget(self.settings.queued_max_request_bytes)
        self.unread = UnreadAnswers(self.settings.queued_max_request_bytes)
        self.connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Listen; with port 0 on a free one, which `port` is from then on."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self), self.host, self.port, backlog=BACKLOG
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        self._plan_sweep()

    def stop(self) -> None:
        """Listen no more, and end every connection at once."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections):
            connection.abort()

    def now_ms(self) -> int:
        """The loop's time, in which nothing but the loop's timers is reckoned."""
        return self.node.now_ms()

    # -- connections

    def admit(self, connection: Connection) -> bool:
        """A new connection.

        False if there are too many, or would soon be too many files open for any more to be
        accepted.
        """
        everywhere = sum(len(node.server.connections) for node in self.node.cluster.nodes)
        if (
            len(self.connections) >= self.settings.max_connections
            or everywhere >= _most_connections()
        ):
            return False
        self.connections.add(connection)
        return True

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        self.connections.discard(connection)

    def throttle(self, connection: Connection, throttle_ms: int) -> None:
        """Leave a connection unread for a while."""
        operation = ThrottledChannel(throttle_ms, connection.unmute)
        self.node.purgatories["Throttle"].try_complete_else_watch(operation, [id(connection)])

    def _plan_sweep(self) -> None:
        every_ms = max(1, min(SWEEP_EVERY_MS, self.settings.connections_max_idle_ms))
        self._sweep = asyncio.get_running_loop().call_later(every_ms / 1_000, self._close_idle)

    def _close_idle(self) -> None:
        now_ms = self.now_ms()
        for connection in list(self.connections):
            silent_ms = now_ms - connection.active_ms
            if connection.is_closed:
                if silent_ms >= STALLED_MS:
                    connection.abort()
            elif connection.is_stalled(now_ms, STALLED_MS):
                connection.close(
                    f"a request has been coming in for {STALLED_MS} ms and is not complete"
                )
            elif (
                not self.unread.has_room(is_fetch=True)
                and self.unread.age_ms(connection, now_ms) >= UNREAD_MS
            ):
                connection.close(
                    f"its client has not taken an answer for {UNREAD_MS} ms, and others wait"
                )
            elif not connection.is_waiting and silent_ms >= self.settings.connections_max_idle_ms:
                connection.close(f"silent for {silent_ms} ms")
        self._plan_sweep()

    # -- requests

    def handle(self, context: RequestContext, request: Any) -> None:
        """Have the node answer a request, now or later."""
        node = self.node
        if node.recorder is not None:
            node.recorder.request(node.node_id, context, request)
        code = (
            node.cluster.faults.error_for(node.node_id, context.header.api)
            if request is not None
            else None
        )
        if code is not None:
            context.reply(error_response(context.header.api, request, code))
            return
        with node.actions:
            handle(node, context, request)

    def deliver(self, connection: Connection, context: RequestContext, response: Any) -> None:
        """Send an answer, unless a fault is to befall it."""
        api = context.header.api
        if self.node.recorder is not None:
            self.node.recorder.response(self.node_id, context)
        if response is None:
            connection.write(context, None)
            return
        try:
            frame = response_frame(context.header, response)
        except WireError as error:
            connection.close(str(error))
            return
        except Exception:
            logger.exception(
                "node %d can't write its %s response: %r", self.node_id, api.name, response
            )
            connection.close(f"its {api.name} response can't be written")
            return
        fault = self.node.cluster.faults.fault_for(self.node_id, api)
        if fault is None:
            connection.write(context, frame)
        else:
            self._befall(fault, connection, context, frame)

    def _befall(
        self, fault: ResponseFault, connection: Connection, context: RequestContext, frame: bytes
    ) -> None:
        if fault.kind == "delay":
            asyncio.get_running_loop().call_later(
                fault.delay_ms / 1_000, connection.write, context, frame
            )
        elif fault.kind == "corrupt":
            connection.write(context, fault.corrupted(frame))
        elif fault.kind == "disconnect":
            connection.abort()
        # A dropped one: the client waits for it, and nothing further on this connection is
        # answered.
