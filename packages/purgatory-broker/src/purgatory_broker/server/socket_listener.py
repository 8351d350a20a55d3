"""A listening socket, whose connections may begin with a TLS handshake."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from purgatory_broker.server.connection import Connection

logger = logging.getLogger(__name__)

#: A connection is closed if its TLS handshake is incomplete after these seconds.
TLS_HANDSHAKE_TIMEOUT = 10.0
#: Seconds until the next attempt if no connection can be accepted, as in asyncio's own listeners.
_ACCEPT_RETRY_DELAY = 1.0


class SocketListener:
    """Accepts connections, and closes those that it has accepted but not handed over.

    asyncio's servers leave these open, and tell nobody why a handshake has failed.
    """

    def __init__(
        self,
        node_id: int,
        bound: socket.socket,
        context: ssl.SSLContext | None,
        new_connection: Callable[[], Connection],
        *,
        register: Callable[[Connection], bool],
        unregister: Callable[[Connection], None],
    ) -> None:
        """`register` returns False if there are too many connections."""
        self._node_id = node_id
        self._register = register
        self._unregister = unregister
        self._bound = bound
        self._context = context
        self._new_connection = new_connection
        self._accepted: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        bound.setblocking(False)
        self._loop.add_reader(bound, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._bound)
        if self._retry is not None:
            self._retry.cancel()
        self._bound.close()
        for task in self._accepted:
            task.cancel()

    def _accept(self) -> None:
        try:
            accepted, (host, *_) = self._bound.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            # There are too many files, for instance; the socket stays readable.
            logger.error("node %d can't accept connections: %s", self._node_id, error)
            self._loop.remove_reader(self._bound)
            self._retry = self._loop.call_later(
                _ACCEPT_RETRY_DELAY, self._loop.add_reader, self._bound, self._accept
            )
            return
        connection = self._new_connection()
        if not self._register(connection):
            self._log(host, "too many connections")
            accepted.close()
            return
        accepted.setblocking(False)
        # As Kafka: else a response waits until the client has acknowledged the one before. asyncio
        # does so for sockets that were made with a protocol's number only, and not for these.
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._hand_over(accepted, host, connection))
        self._accepted.add(task)

        def end(task: asyncio.Task[None]) -> None:
            self._accepted.discard(task)
            self._unregister(connection)
            if task.cancelled():
                accepted.close()  # It may not have begun.

        task.add_done_callback(end)

    async def _hand_over(self, accepted: socket.socket, host: str, connection: Connection) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else TLS_HANDSHAKE_TIMEOUT,
            )
        except OSError as error:
            reason = str(error) or "the client has closed the connection"
            of_tls = "" if self._context is None else "the TLS handshake has failed: "
            self._log(host, f"{of_tls}{reason}")

    def _log(self, host: str, reason: str) -> None:
        logger.info("node %d closes the connection of %s: %s", self._node_id, f"/{host}", reason)
