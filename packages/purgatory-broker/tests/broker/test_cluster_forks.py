"""Clusters of a process that has forked a child, which lives on."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from purgatory_broker import AsyncCluster, Cluster, ClusterSettings
from tests.broker.certificates import Certificates
from tests.broker.conftest import Connect
from tests.support.children import in_child

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

TIME_LIMIT = 30.0


@contextmanager
def living_child() -> Iterator[None]:
    """Fork a child that does nothing until the end of the block."""
    begin, end = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end[1])
        os.write(begin[1], b".")
        os.read(end[0], 1)
        os._exit(0)
    try:
        os.read(begin[0], 1)
        yield
    finally:
        os.close(end[1])
        os.waitpid(child, 0)
        for descriptor in (*begin, end[0]):
            os.close(descriptor)


def require_refused(address: str) -> None:
    host, _, port = address.rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), TIME_LIMIT)


def test_node_stops_and_starts_while_a_forked_child_lives(
    certificates: Certificates, connect: Connect
) -> None:
    with Cluster(
        listeners="PLAINTEXT://127.0.0.1:0,SSL://0.0.0.0:0",
        advertised_listeners="SSL://127.0.0.1:0",
        ssl_keystore_location=str(certificates.broker),
    ) as cluster:
        addresses = [cluster.bootstrap_servers_of(name) for name in ("PLAINTEXT", "SSL")]
        clients = [connect(address) for address in addresses]
        clients[0].call("Metadata", 9, topics=[])
        with living_child():
            cluster.kill(0)
            for client in clients:
                assert client.is_closed(within=TIME_LIMIT)
            for address in addresses:
                require_refused(address)
            cluster.restart(0)
            cluster.reset()
            assert connect(addresses[0]).call("Metadata", 9, topics=[]).brokers


def test_closed_cluster_leaves_port_and_directory_while_a_forked_child_lives(
    tmp_path: Path, connect: Connect
) -> None:
    with ExitStack() as until_then:
        with Cluster(data_dir=tmp_path) as cluster:
            address = cluster.bootstrap_servers
            client = connect(address)
            client.call("Metadata", 9, topics=[])
            until_then.enter_context(living_child())
        assert client.is_closed(within=TIME_LIMIT)
        require_refused(address)
        with Cluster(data_dir=tmp_path, port=int(address.rpartition(":")[2])):
            assert connect(address).call("Metadata", 9, topics=[]).brokers


def test_async_cluster_leaves_port_and_directory_while_a_forked_child_lives(
    tmp_path: Path, connect: Connect
) -> None:
    async def main() -> None:
        settings = ClusterSettings(data_dir=tmp_path)
        with ExitStack() as until_then:
            async with AsyncCluster(settings) as cluster:
                client = connect(cluster.bootstrap_servers)
                await asyncio.to_thread(client.call, "Metadata", 9, topics=[])
                until_then.enter_context(living_child())
                await cluster.reset()
                assert await asyncio.to_thread(client.is_closed, within=TIME_LIMIT)
            require_refused(cluster.bootstrap_servers)
            async with AsyncCluster(settings):
                pass

    asyncio.run(main())


def test_forked_child_keeps_all_but_the_sockets_of_the_cluster(
    cluster: Cluster, connect: Connect
) -> None:
    client = connect(cluster.bootstrap_servers.split(",")[0])
    before = socket.getdefaulttimeout()

    def child() -> None:
        with socket.create_connection(other.getsockname()) as connection:
            assert other.accept()[1] == connection.getsockname()
        assert len(client.call("Metadata", 9, topics=[]).brokers) == 3
        assert socket.getdefaulttimeout() == TIME_LIMIT

    with socket.create_server(("127.0.0.1", 0)) as other:
        socket.setdefaulttimeout(TIME_LIMIT)
        try:
            in_child(child)
        finally:
            socket.setdefaulttimeout(before)
        # The child shares the socket's state.
        assert os.get_blocking(other.fileno())


def test_fork_of_a_forked_child_keeps_the_sockets_of_the_child() -> None:
    begin, end = os.pipe(), os.pipe()

    def child() -> None:
        os.write(begin[1], b".")
        os.read(end[0], 1)
        with socket.create_server((host, int(port))) as own:
            forked_again = os.fork()
            if forked_again == 0:
                try:
                    own.getsockname()
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitpid(forked_again, 0)[1] == 0

    with Cluster() as cluster, ThreadPoolExecutor() as threads:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        forked = threads.submit(in_child, child)
        os.read(begin[0], 1)
        cluster.close()
        os.write(end[1], b".")
        forked.result(TIME_LIMIT)
    for descriptor in (*begin, *end):
        os.close(descriptor)
