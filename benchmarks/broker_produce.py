"""A broker's acks=all: requests and bytes a second over some connections, replicated to all nodes.

Each connection sends a Produce request of one record, waits for its answer, and goes on. Requests
are encoded beforehand, and broker and clients are processes of their own. Kafka's nodes are a
process each; ours share one, and an interpreter. librdkafka's mock cluster does not replicate.
"""

from __future__ import annotations

import asyncio
import struct
from time import perf_counter

from benchmarks import peers
from benchmarks.broker_client import connect, make_topic, produce_frame
from benchmarks.broker_peers import cpu_seconds, running
from benchmarks.question import Case

QUESTION = "broker_produce"
METRICS = {"per_second": "1/s", "mb_per_second": "MB/s", "broker_cpu_us": "µs"}
SIDES = (peers.OURS, peers.MOCK_CLUSTER, peers.KAFKA_BROKER)

_TOPIC = "benchmark"
#: Before the error code of the one partition: correlation id, topics, name, partitions, index.
_ERROR_AT = 4 + 4 + 2 + len(_TOPIC) + 4 + 4
_NOT_LEADER = 6
_WARM_UP = 0.3


def cases(quick: bool) -> list[Case]:
    """One connection and twenty, one node and three; small records, and large ones."""
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


def left_out(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """None."""
    return None


def measure(side: str, nodes: int, connections: int, bytes: int, ms: int) -> dict[str, float]:
    """Requests answered per second, bytes of their records, and the broker's processor time for each."""
    with running(side, nodes) as broker:
        return asyncio.run(
            _measure(broker.addresses, broker.pids, nodes, connections, bytes, ms / 1_000)
        )


async def _measure(
    addresses: list[str], pids: list[int], nodes: int, connections: int, size: int, seconds: float
) -> dict[str, float]:
    leader = await make_topic(addresses, _TOPIC, nodes)
    request = produce_frame(_TOPIC, 0, size)
    links = [await connect(leader) for _ in range(connections)]

    async def send(link: object, until: float) -> int:
        sent = 0
        while perf_counter() < until:
            answer = await link.ask(request)  # type: ignore[attr-defined]
            (code,) = struct.unpack_from(">h", answer, _ERROR_AT)
            if code == _NOT_LEADER and not sent:
                await asyncio.sleep(0.02)  # Nodes of Kafka's hear of a new topic one after another.
                continue
            if code:
                raise RuntimeError(f"error {code} after {sent} requests")
            sent += 1
        return sent

    async def all_send(duration: float) -> tuple[int, float]:
        began = perf_counter()
        sent = await asyncio.gather(*(send(link, began + duration) for link in links))
        return sum(sent), perf_counter() - began

    await all_send(_WARM_UP + seconds / 4)
    began_cpu = cpu_seconds(pids)
    sent, elapsed = await all_send(seconds)
    cpu = cpu_seconds(pids) - began_cpu
    for link in links:
        link.close()
    return {
        "per_second": sent / elapsed,
        "mb_per_second": sent * size / elapsed / 1e6,
        "broker_cpu_us": cpu / sent * 1e6,
    }
