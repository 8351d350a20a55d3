"""Serves the registry over HTTP, by uvicorn on the running event loop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from purgatory_broker.listeners import LOOPBACK
from purgatory_broker.schema_registry.registry import Registry
from purgatory_broker.schema_registry.registry_topic import SchemaStore
from purgatory_broker.schema_registry.rest_api import RestApi

#: For requests under way when the server stops.
_GRACE_S = 2
#: Until an idle connection is closed: a client may be sending its next request just then.
_KEEP_ALIVE_S = 600


class RegistryServer:
    def __init__(self, store: SchemaStore, port: int) -> None:
        self._api = RestApi(Registry(store))
        self._port = port
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    async def start(self) -> None:
        """Listen; OSError if the port is in use."""
        # asyncio turns Nagle's algorithm off only for sockets that say that they are of TCP; an
        # answer of two writes would take 40 ms.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((LOOPBACK, self._port))
        except BaseException:
            listening.close()
            raise
        self._port = listening.getsockname()[1]
        config = uvicorn.Config(
            self._api,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            date_header=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve([listening]))
        started = asyncio.create_task(self._server.listens.wait())
        await asyncio.wait((self._serving, started), return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            started.cancel()
            listening.close()
            self._serving.result()

    async def stop(self) -> None:
        if self._server is not None and self._serving is not None:
            self._server.stopping.set()
            await self._serving


class _Server(uvicorn.Server):
    """Leaves signals to the program, and ends when it is told to, without looking ten times a s."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()
        self.stopping = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        self.listens.set()
        await self.stopping.wait()
