"""Connections that wait for the memory of requests, or whose clients do not read."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import pytest

from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.server.frame_buffer import READ_AHEAD_BYTES
from purgatory_broker.server.server import UNREAD_RESPONSE_TIMEOUT_MS
from tests.broker import apis
from tests.broker.hostile.client import check_clients_are_served
from tests.broker.hostile.conftest import RunScenario
from tests.broker.hostile.corpus import request
from tests.broker.hostile.raw_connection import RawConnection
from tests.broker.hostile.sample_requests import TOPIC, leader_of, with_size
from tests.broker.hostile.waiting_requests import (
    API_VERSIONS_REQUEST,
    INCOMPLETE_REQUEST_S,
    UNREAD_RESPONSE_S,
    check_clients_are_served_within,
    produce_request,
    waiting_fetch,
    write_megabytes,
)
from tests.broker.raw_requests import fetch_fields

# -- the memory of requests


@pytest.mark.parametrize("pause", [0.0, 3.0])
def test_stalled_sender_delays_large_requests_only_until_its_timeout(
    run_scenario: RunScenario, pause: float
) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        node = cluster.nodes[leader_of(cluster)]
        stalled, large, small = RawConnection(node), RawConnection(node), RawConnection(node)
        stalled.send(struct.pack(">i", 1_000_000))
        assert node.server.memory_pool.available_bytes < 0
        large.send(produce_request(READ_AHEAD_BYTES, acks=1))
        small.send(produce_request(1_000, acks=1))
        assert len(small.responses()) == 1
        for _ in range(int(INCOMPLETE_REQUEST_S)):
            assert not large.responses() or stalled.transport.is_closed
            if pause:
                stalled.send(b"\0")
            await asyncio.sleep(1)
        assert stalled.transport.is_closed
        stalled.end()
        await asyncio.sleep(0.1)
        assert len(large.responses()) == 1
        assert node.server.memory_pool.available_bytes == node.server.memory_pool.size_bytes

    run_scenario(scenario, queued_max_request_bytes=100_000)


def test_connection_waits_for_memory_once(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        server = cluster.nodes[0].server
        stalled, waiting = RawConnection(cluster.nodes[0]), RawConnection(cluster.nodes[0])
        stalled.send(struct.pack(">i", 1_000_000))
        waiting.send(struct.pack(">i", 200_000))
        for _ in range(10_000):
            waiting.send(b"\0")
        assert len(server.memory_pool.waiting) == 1
        waiting.end()
        assert len(server.memory_pool.waiting) == 0
        await asyncio.sleep(INCOMPLETE_REQUEST_S)
        assert stalled.transport.is_closed

    run_scenario(scenario, queued_max_request_bytes=100_000)


# -- unread responses


async def _response_time(client: RawConnection, seconds: float) -> float:
    """Return the seconds until a client has a response, which must be at most `seconds`."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    while not client.responses():
        assert loop.time() < begin + seconds, "no response"
        await asyncio.sleep(0.5)
    return loop.time() - begin


def test_unread_responses_are_limited(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        await write_megabytes(cluster, 4)
        node = cluster.nodes[leader_of(cluster)]
        fetch = with_size(request(apis.FETCH, 11, **fetch_fields(TOPIC, 0)))
        slow = [RawConnection(node, is_slow=True) for _ in range(12)]
        for connection in slow:
            connection.send(fetch * 3)
        largest = max(len(connection.transport.sent) for connection in slow)
        assert largest > 500_000
        assert (
            node.server.unread_responses.bytes
            < node.server.unread_responses.limit_bytes + largest + READ_AHEAD_BYTES
        )
        assert sum(bool(connection.transport.sent) for connection in slow) < len(slow)
        reader, writer = RawConnection(node), RawConnection(node)
        reader.send(fetch)
        writer.send(produce_request(1_000, acks=1))
        assert (len(reader.responses()), len(writer.responses())) == (0, 1)
        # Waiting connections get their turns as those before them are disconnected.
        assert (
            await _response_time(reader, 12 * UNREAD_RESPONSE_S)
            >= UNREAD_RESPONSE_TIMEOUT_MS / 1_000
        )
        assert slow[0].transport.is_aborted
        for connection in slow:
            connection.end()
        assert (node.server.unread_responses.bytes, len(node.server.unread_responses)) == (0, 0)
        await check_clients_are_served(cluster)

    run_scenario(scenario, queued_max_request_bytes=3_000_000)


def test_slow_reader_is_served_when_it_has_read(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        await write_megabytes(cluster, 2)
        slow = RawConnection(cluster.nodes[leader_of(cluster)], is_slow=True)
        slow.send(
            with_size(request(apis.FETCH, 11, **fetch_fields(TOPIC, 0))) + API_VERSIONS_REQUEST
        )
        assert len(slow.responses()) == 1
        await asyncio.sleep(5 * INCOMPLETE_REQUEST_S)
        assert not slow.transport.is_closed
        slow.transport.read_all()
        assert len(slow.responses()) == 2
        slow.end()

    run_scenario(scenario)


def test_waiting_fetches_return_no_records_without_memory(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        node = cluster.nodes[leader_of(cluster)]
        waiting = [RawConnection(node, is_slow=True) for _ in range(200)]
        for connection in waiting:
            connection.send(waiting_fetch())
        writer = RawConnection(node)
        writer.send(produce_request(1_000_000))
        await asyncio.sleep(1)
        assert all(len(connection.responses()) == 1 for connection in waiting)
        assert sum(len(connection.transport.sent) > 1_000_000 for connection in waiting) <= 4
        assert node.server.unread_responses.bytes < 5_000_000
        for connection in [*waiting, writer]:
            connection.end()

    run_scenario(scenario, queued_max_request_bytes=3_000_000)


def test_clients_on_sockets_that_do_not_read_are_disconnected(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        await write_megabytes(cluster, 16)
        node = cluster.nodes[leader_of(cluster)]
        listener, *_ = node.server.listeners
        loop = asyncio.get_running_loop()
        fetch = request(apis.FETCH, 11, **fetch_fields(TOPIC, 0) | {"topics": [_whole_topic()]})
        sockets = []
        for _ in range(4):
            sockets.append(socket.socket())
            sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            sockets[-1].setblocking(False)
            await loop.sock_connect(sockets[-1], (listener.host, listener.port))
            await loop.sock_sendall(sockets[-1], with_size(fetch))
        await asyncio.sleep(1)
        assert len(node.server.unread_responses) > 0
        assert not node.server.unread_responses.has_room(is_fetch=True)
        await check_clients_are_served_within(cluster, 4 * UNREAD_RESPONSE_S)
        await asyncio.sleep(4 * UNREAD_RESPONSE_S)
        assert not node.server.connections
        for each in sockets:
            each.close()

    run_scenario(scenario, queued_max_request_bytes=2_000_000)


def _whole_topic() -> dict[str, Any]:
    return {
        "topic": TOPIC,
        "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**30}],
    }
