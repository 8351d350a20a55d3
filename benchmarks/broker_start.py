"""A broker's start: from nothing until a client has the answer to its first request."""

from __future__ import annotations

import asyncio
from time import perf_counter

from benchmarks import peers
from benchmarks.broker_client import make_topic
from benchmarks.broker_peers import running
from benchmarks.question import Case
from request_purgatory.broker import Cluster

QUESTION = "broker_start"
METRICS = {"ms": "ms"}
SIDES = (peers.OURS_THREAD, peers.OURS, peers.MOCK_CLUSTER, peers.KAFKA_BROKER)


def cases(quick: bool) -> list[Case]:  # noqa: ARG001 - the same for both
    """One node and three."""
    return [Case({"nodes": nodes}, nodes) for nodes in (1, 3)]


def left_out(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """None."""
    return None


def measure(side: str, nodes: int) -> dict[str, float]:
    """Milliseconds until a topic has a leader.

    The modules are imported by then, but in a process of its own.
    """
    began = perf_counter()
    if side == peers.OURS_THREAD:
        with Cluster(nodes=nodes) as cluster:
            asyncio.run(make_topic(cluster.bootstrap.split(","), "first", nodes))
            return {"ms": (perf_counter() - began) * 1e3}
    with running(side, nodes) as broker:
        asyncio.run(make_topic(broker.addresses, "first", nodes))
        return {"ms": (perf_counter() - began) * 1e3}
