"""A broker's start: from nothing until a client has the response to its first request."""

from __future__ import annotations

import asyncio
from time import perf_counter

from benchmarks import peers
from benchmarks.broker_client import create_topic
from benchmarks.broker_peers import running_broker
from benchmarks.question import Case
from purgatory_broker import Cluster

QUESTION = "broker_start"
METRICS = {"ms": "ms"}
SIDES = (peers.OURS_THREAD, peers.OURS, peers.MOCK_CLUSTER, peers.KAFKA_BROKER)


def cases(quick: bool) -> list[Case]:  # noqa: ARG001 - the same for both
    """Return a case with one node and one with three."""
    return [Case({"nodes": nodes}, nodes) for nodes in (1, 3)]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: every side runs every case."""
    return None


def measure(side: str, nodes: int) -> dict[str, float]:
    """Measure milliseconds until a topic has a leader.

    The broker's modules are already imported, except where it has a process of its own.
    """
    began = perf_counter()
    if side == peers.OURS_THREAD:
        with Cluster(nodes=nodes) as cluster:
            asyncio.run(create_topic(cluster.bootstrap_servers.split(","), "first", nodes))
            return {"ms": (perf_counter() - began) * 1e3}
    with running_broker(side, nodes) as broker:
        asyncio.run(create_topic(broker.addresses, "first", nodes))
        return {"ms": (perf_counter() - began) * 1e3}
