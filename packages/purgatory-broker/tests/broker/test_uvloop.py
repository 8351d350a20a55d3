"""A cluster on uvloop's event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from purgatory_broker import AsyncCluster, ClusterSettings
from purgatory_broker.cluster_options import settings_from
from tests.broker.certificates import Certificates
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch, produce
from tests.broker.security.test_tls import settings, tls_client, trusting

uvloop = pytest.importorskip("uvloop")

TIME_LIMIT = 30.0


def run(work: Any) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(work, TIME_LIMIT))


def exchange(client: RawClient) -> None:
    offset = produce(client, "orders", b"one").base_offset
    assert fetch(client, "orders", offset).high_watermark == offset + 1


def test_cluster_on_uvloop_serves_clients() -> None:
    def call(address: str) -> None:
        client = RawClient(address)
        try:
            exchange(client)
        finally:
            client.close()

    async def main() -> None:
        async with AsyncCluster(ClusterSettings()) as cluster:
            cluster.create_topic("orders")
            await asyncio.to_thread(call, cluster.bootstrap_servers)
            cluster.kill(0)
            await cluster.restart(0)
            await asyncio.to_thread(call, cluster.bootstrap_servers)
            await cluster.reset()
            cluster.create_topic("orders")
            await asyncio.to_thread(call, cluster.bootstrap_servers)

    run(main())


def test_cluster_on_uvloop_serves_clients_by_tls(certificates: Certificates) -> None:
    def call(address: str) -> None:
        with tls_client(address, trusting(certificates)) as client:
            exchange(client)

    async def main() -> None:
        async with AsyncCluster(settings_from(1, settings(certificates))) as cluster:  # type: ignore[arg-type]
            cluster.create_topic("orders")
            await asyncio.to_thread(call, cluster.bootstrap_servers)

    run(main())
