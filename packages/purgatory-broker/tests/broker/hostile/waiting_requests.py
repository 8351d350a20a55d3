"""Requests that wait, and how long the tests of connections wait for a node."""

from __future__ import annotations

import asyncio
from typing import Any

from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.server.server import (
    INCOMPLETE_REQUEST_TIMEOUT_MS,
    SWEEP_INTERVAL_MS,
    UNREAD_RESPONSE_TIMEOUT_MS,
)
from tests.broker import apis
from tests.broker.hostile.client import check_clients_are_served
from tests.broker.hostile.corpus import request
from tests.broker.hostile.raw_connection import RawConnection
from tests.broker.hostile.sample_requests import TOPIC, frame, leader_of, with_size
from tests.broker.raw_requests import fetch_fields, records

MAX_WAIT_MS = 2**31 - 1
#: The seconds after which the sweep has closed a connection with an incomplete request, and one
#: with an unread response while others wait.
INCOMPLETE_REQUEST_S = (INCOMPLETE_REQUEST_TIMEOUT_MS + SWEEP_INTERVAL_MS) / 1_000 + 1
UNREAD_RESPONSE_S = (UNREAD_RESPONSE_TIMEOUT_MS + SWEEP_INTERVAL_MS) / 1_000 + 1
API_VERSIONS_REQUEST = with_size(frame(apis.API_VERSIONS, 0))


def waiting_fetch(**options: Any) -> bytes:
    """Return a Fetch request that waits for records with the longest timeout."""
    return with_size(
        request(apis.FETCH, 11, **fetch_fields(TOPIC, 0, max_wait_ms=MAX_WAIT_MS, **options))
    )


def produce_request(size: int, acks: int = -1, timeout_ms: int = MAX_WAIT_MS) -> bytes:
    """Return a Produce request with a record of this size."""
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": records(bytes(size))}]}]
    return with_size(request(apis.PRODUCE, 9, acks=acks, timeout_ms=timeout_ms, topic_data=data))


async def write_megabytes(cluster: AsyncCluster, megabytes: int) -> None:
    """Write records of one megabyte each to the topic."""
    writer = RawConnection(cluster.nodes[leader_of(cluster)])
    for _ in range(megabytes):
        writer.send(produce_request(1_000_000))
        await asyncio.sleep(0.1)
    assert len(writer.responses()) == megabytes
    writer.end()


async def check_clients_are_served_within(cluster: AsyncCluster, seconds: float) -> None:
    """Assert that a client is served within a time."""
    await asyncio.wait_for(check_clients_are_served(cluster), seconds)
