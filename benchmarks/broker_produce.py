"""A broker's acks=all: requests and bytes a second over some connections, replicated to all nodes.

Each connection sends a Produce request of one record, waits for the response, and repeats. Requests
are encoded in advance, and broker and clients are separate processes. Kafka has one process for
each node; our nodes share a process and an interpreter. librdkafka's mock cluster does not
replicate.
"""

from __future__ import annotations

import asyncio
import struct
from time import perf_counter

from benchmarks import peers
from benchmarks.broker_client import Connection, connect, create_topic, produce_frame
from benchmarks.broker_peers import cpu_seconds, running_broker
from benchmarks.question import Case

QUESTION = "broker_produce"
METRICS = {"per_second": "1/s", "mb_per_second": "MB/s", "broker_cpu_us": "\N{MICRO SIGN}s"}
SIDES = (peers.OURS, peers.MOCK_CLUSTER, peers.KAFKA_BROKER)

_TOPIC = "benchmark"
#: The offset of the partition's error code in a Produce response. Before it are the correlation
#: id, the number of topics, the name, the number of partitions and the index.
_ERROR_AT = 4 + 4 + 2 + len(_TOPIC) + 4 + 4
_NOT_LEADER = 6
_WARM_UP_S = 0.3


def cases(quick: bool) -> list[Case]:
    """Return cases with 1 and 20 connections, 1 and 3 nodes, small and large records."""
    sizes = (100,) if quick else (100, 100_000)
    return [
        Case(
            {
                "nodes": nodes,
                "connections": connections,
                "bytes": size,
                "ms": 500 if quick else 4_000,
            },
            connections,
        )
        for size in sizes
        for nodes in (1, 3)
        for connections in (1, 20)
    ]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: every side runs every case."""
    return None


def measure(side: str, nodes: int, connections: int, bytes: int, ms: int) -> dict[str, float]:
    """Measure requests and record bytes per second, and the broker's processor time per request."""
    with running_broker(side, nodes) as broker:
        return asyncio.run(
            _measure(broker.addresses, broker.pids, nodes, connections, bytes, ms / 1_000)
        )


async def _measure(
    addresses: list[str], pids: list[int], nodes: int, connections: int, size: int, seconds: float
) -> dict[str, float]:
    leader = await create_topic(addresses, _TOPIC, nodes)
    request = produce_frame(_TOPIC, 0, size)
    opened = [await connect(leader) for _ in range(connections)]

    async def send(connection: Connection, until: float) -> int:
        sent = 0
        while perf_counter() < until:
            response = await connection.send(request)
            (code,) = struct.unpack_from(">h", response, _ERROR_AT)
            if code == _NOT_LEADER and not sent:
                await asyncio.sleep(0.02)  # Kafka's nodes learn of a new topic one after another.
                continue
            if code:
                raise RuntimeError(f"Produce failed with error code {code} after {sent} requests")
            sent += 1
        return sent

    async def all_send(duration: float) -> tuple[int, float]:
        began = perf_counter()
        sent = await asyncio.gather(*(send(connection, began + duration) for connection in opened))
        return sum(sent), perf_counter() - began

    await all_send(_WARM_UP_S + seconds / 4)
    began_cpu = cpu_seconds(pids)
    sent, elapsed = await all_send(seconds)
    cpu = cpu_seconds(pids) - began_cpu
    for connection in opened:
        connection.close()
    return {
        "per_second": sent / elapsed,
        "mb_per_second": sent * size / elapsed / 1e6,
        "broker_cpu_us": cpu / sent * 1e6,
    }
