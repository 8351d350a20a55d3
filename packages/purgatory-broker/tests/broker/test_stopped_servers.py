"""Clients that connect in the moment in which a node stops."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Any

import pytest

from purgatory_broker import AsyncCluster, ClusterSettings
from purgatory_broker.cluster_options import settings_from
from tests.broker.certificates import Certificates
from tests.broker.security.test_tls import settings, trusting

TIME_LIMIT = 20.0
#: More rounds of the loop than until a connection's first request is answered.
ROUNDS = 8
TLS_ROUNDS = 40
#: ApiVersions in version 0, of a client without a name.
REQUEST = bytes.fromhex("0000000a 0012 0000 00000007 ffff")


async def ask_until_the_end(**target: Any) -> None:
    """Send requests until the connection ends, also before it begins."""
    with suppress(OSError, asyncio.IncompleteReadError):
        reader, writer = await asyncio.open_connection(**target)
        try:
            while True:
                writer.write(REQUEST)
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
        finally:
            writer.close()


@pytest.mark.parametrize("command", ["kill", "stop", "reset"])
def test_client_that_connects_while_a_node_stops_is_disconnected(command: str) -> None:
    async def attempt(rounds: int) -> None:
        async with AsyncCluster(ClusterSettings()) as cluster:
            host, _, port = cluster.bootstrap_servers.rpartition(":")
            client = socket.create_connection((host, int(port)), TIME_LIMIT)
            client.sendall(REQUEST)
            for _ in range(rounds):
                await asyncio.sleep(0)
            await (cluster.reset() if command == "reset" else call(cluster))
            answered = len(await cluster.requests())
            await asyncio.wait_for(ask_until_the_end(sock=client), TIME_LIMIT)
            assert len(await cluster.requests()) == answered

    async def call(cluster: AsyncCluster) -> None:
        getattr(cluster, command)(0)

    for rounds in range(ROUNDS):
        asyncio.run(attempt(rounds))


def test_client_that_connects_by_tls_while_a_node_stops_is_disconnected(
    certificates: Certificates,
) -> None:
    context: ssl.SSLContext = trusting(certificates)

    async def attempt(rounds: int) -> None:
        async with AsyncCluster(settings_from(1, settings(certificates))) as cluster:  # type: ignore[arg-type]
            host, _, port = cluster.bootstrap_servers.rpartition(":")
            client = asyncio.ensure_future(
                ask_until_the_end(host=host, port=int(port), ssl=context)
            )
            for _ in range(rounds):
                await asyncio.sleep(0)
            cluster.kill(0)
            answered = len(await cluster.requests())
            await asyncio.wait_for(client, TIME_LIMIT)
            assert len(await cluster.requests()) == answered

    for rounds in range(TLS_ROUNDS):
        asyncio.run(attempt(rounds))
