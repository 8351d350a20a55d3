"""Connections that are half-closed, slow, idle, busy or too many."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from purgatory_broker._wire.apis import Api
from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.server.connection import REQUESTS_PER_TURN
from purgatory_broker.server.frame_buffer import READ_AHEAD_BYTES
from purgatory_broker.server.server import INCOMPLETE_REQUEST_TIMEOUT_MS
from tests.broker import apis
from tests.broker.hostile.client import Client, check_clients_are_served
from tests.broker.hostile.conftest import RunScenario, count_delayed_requests
from tests.broker.hostile.raw_connection import RawConnection
from tests.broker.hostile.sample_requests import TOPIC, frame, leader_of, with_size
from tests.broker.hostile.waiting_requests import (
    API_VERSIONS_REQUEST,
    INCOMPLETE_REQUEST_S,
    produce_request,
    waiting_fetch,
    write_megabytes,
)

# -- closed connections


@pytest.mark.parametrize("end", ["half", "whole"])
def test_waiting_requests_end_with_their_connection(run_scenario: RunScenario, end: str) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        node = leader_of(cluster)
        cluster.pause_replication(1 - node)
        clients = []
        for raw in (waiting_fetch(), waiting_fetch(), produce_request(10)):
            clients.append(await Client.to(cluster, node))
            clients[-1].writer.write(raw)
            await asyncio.sleep(0.1)
        assert cluster.nodes[node].purgatories["Produce"].num_delayed == 1
        assert cluster.nodes[node].purgatories["Fetch"].num_delayed >= 2
        for client in clients:
            if end == "half":
                client.writer.write_eof()
                assert await client.reader.read() == b""
            client.close()
        await asyncio.sleep(0.1)
        assert cluster.nodes[node].purgatories["Produce"].num_delayed == 0
        assert not cluster.nodes[node].server.connections
        assert await count_delayed_requests(cluster) == 0
        await asyncio.sleep(5)
        await check_clients_are_served(cluster)

    run_scenario(scenario, replica_lag_time_max_ms=3_600_000)


def test_responses_are_sent_before_earlier_ones_are_acknowledged(run_scenario: RunScenario) -> None:
    """A client that sends several requests at once gets all their responses at once."""

    async def scenario(cluster: AsyncCluster) -> None:
        client = await Client.to(cluster)
        await client.call(apis.API_VERSIONS, 0)
        (connection,) = cluster.nodes[0].server.connections
        assert connection._transport is not None
        accepted = connection._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        client.close()

    run_scenario(scenario)


def test_requests_after_an_invalid_one_are_not_handled(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        node = cluster.nodes[leader_of(cluster)]
        connection = RawConnection(node)
        connection.send(API_VERSIONS_REQUEST + with_size(b"no request") + produce_request(10) * 3)
        assert connection.transport.is_closed
        assert len(connection.responses()) == 1
        assert cluster.describe_topic(TOPIC)[0]["offsets"][node.node_id]["end_offset"] == 0

    run_scenario(scenario)


def test_closed_connection_of_a_client_that_does_not_read_is_aborted(
    run_scenario: RunScenario,
) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        connection = RawConnection(cluster.nodes[0], is_slow=True)
        connection.send(API_VERSIONS_REQUEST + with_size(b"no request"))
        assert connection.transport.is_closed
        assert not connection.transport.is_aborted
        await asyncio.sleep(INCOMPLETE_REQUEST_S)
        assert connection.transport.is_aborted

    run_scenario(scenario)


# -- slow and idle clients


def test_slow_request_closes_its_connection(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        slow, slower = RawConnection(cluster.nodes[0]), RawConnection(cluster.nodes[0])
        for byte in API_VERSIONS_REQUEST:
            slow.send(bytes([byte]))
            await asyncio.sleep(1)
        assert len(slow.responses()) == 1
        for byte in API_VERSIONS_REQUEST:
            slower.send(bytes([byte]))
            await asyncio.sleep(5)
        assert slower.transport.is_closed
        assert not slower.responses()

    run_scenario(scenario)


@pytest.mark.parametrize("begun", [b"\0", b"\0\0\0\x20", API_VERSIONS_REQUEST[:-1]])
def test_connection_that_stalls_inside_a_request_is_closed(
    run_scenario: RunScenario, begun: bytes
) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        client = await Client.to(cluster)
        client.writer.write(begun)
        await asyncio.sleep(INCOMPLETE_REQUEST_TIMEOUT_MS / 1_000 - 1)
        assert not client.reader.at_eof()
        await asyncio.sleep(INCOMPLETE_REQUEST_S)
        assert await client.reader.read() == b""

    run_scenario(scenario)


def test_idle_connections_are_closed_and_waiting_ones_are_not(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        node = leader_of(cluster)
        silent, active, waiting = [await Client.to(cluster, node) for _ in range(3)]
        assert (await active.call(apis.API_VERSIONS, 0)).error_code == 0
        waiting.writer.write(waiting_fetch())
        await asyncio.sleep(100)
        assert await silent.reader.read() == await active.reader.read() == b""
        assert not waiting.reader.at_eof()
        assert await count_delayed_requests(cluster) == 1
        waiting.close()
        await asyncio.sleep(0.1)

    run_scenario(scenario, connections_max_idle_ms=60_000)


# -- size and number


def test_frame_beyond_the_size_limit_is_refused(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        for size, is_closed in ((10_001, True), (-1, True), (10_000, False)):
            connection = RawConnection(cluster.nodes[0])
            connection.send(struct.pack(">i", size))
            assert connection.transport.is_closed is is_closed, size
            connection.end()

    run_scenario(scenario, socket_request_max_bytes=10_000)


def test_connections_beyond_the_limit_are_closed_at_once(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        clients = [await Client.to(cluster) for _ in range(4)]
        assert await clients[3].reader.read() == b""
        for client in clients[:3]:
            assert (await client.call(apis.API_VERSIONS, 0)).error_code == 0
        clients[0].close()
        await asyncio.sleep(0.1)
        assert (await (await Client.to(cluster)).call(apis.API_VERSIONS, 0)).error_code == 0

    run_scenario(scenario, max_connections=3)


def test_connections_leave_files_to_open(
    run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purgatory_broker.server.server._max_connections", lambda: 2)

    async def scenario(cluster: AsyncCluster) -> None:
        first, second, third = (
            await Client.to(cluster, 0),
            await Client.to(cluster, 1),
            await Client.to(cluster, 0),
        )
        assert await third.reader.read() == b""
        for client in (first, second):
            assert (await client.call(apis.API_VERSIONS, 0)).error_code == 0

    run_scenario(scenario)


def test_many_requests_of_a_connection_leave_others_their_turn(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        busy, other = RawConnection(cluster.nodes[0]), RawConnection(cluster.nodes[0])
        count = READ_AHEAD_BYTES // len(API_VERSIONS_REQUEST)
        busy.send(
            b"".join(
                with_size(frame(apis.API_VERSIONS, 0)[:4] + struct.pack(">i", each) + b"\xff\xff")
                for each in range(count)
            )
        )
        other.send(API_VERSIONS_REQUEST)
        assert len(busy.responses()) == REQUESTS_PER_TURN
        assert len(other.responses()) == 1
        await asyncio.sleep(1)
        assert [struct.unpack_from(">i", each)[0] for each in busy.responses()] == list(
            range(count)
        )

    run_scenario(scenario)


def test_read_ahead_is_limited(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        connection = RawConnection(cluster.nodes[leader_of(cluster)])
        connection.send(waiting_fetch())
        taken = 0
        while connection.transport.is_reading():
            connection.send(API_VERSIONS_REQUEST * 100)
            taken += 100 * len(API_VERSIONS_REQUEST)
        assert taken <= READ_AHEAD_BYTES + 100 * len(API_VERSIONS_REQUEST)
        await write_megabytes(cluster, 1)
        await asyncio.sleep(1)
        assert connection.transport.is_reading()
        assert len(connection.responses()) == 1 + taken // len(API_VERSIONS_REQUEST)

    run_scenario(scenario)


# -- all APIs


@pytest.mark.parametrize("api", apis.APIS.values(), ids=lambda api: api.name)
def test_requests_of_disconnected_clients_leave_nothing(
    run_scenario: RunScenario, api: Api
) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        for version in range(api.min_version, api.max_version + 1):
            for _ in range(5):
                connection = RawConnection(cluster.nodes[leader_of(cluster)])
                connection.send(with_size(frame(api, version)) * 2)
                connection.end()
            if TOPIC not in cluster.controller.topics:
                cluster.create_topic(TOPIC, partitions=2)
                await asyncio.sleep(1)
        await asyncio.sleep(400)
        for node in cluster.nodes:
            left = {
                name: each.num_delayed
                for name, each in node.purgatories.items()
                if name != "Fetch" and each.num_delayed
            }
            assert not left, left
        assert await count_delayed_requests(cluster) == 0

    run_scenario(scenario)
