"""A cluster in virtual time for hostile scenarios."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.settings import ClusterSettings
from tests.broker.hostile.client import Client
from tests.broker.hostile.sample_requests import TOPIC
from tests.unit.aio.virtual import run

Scenario = Callable[[AsyncCluster], Coroutine[Any, Any, None]]
RunScenario = Callable[..., None]


class _Errors(logging.Handler):
    """Collects the errors that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Collect an error."""
        self.found.append(logging.Formatter("%(name)s: %(message)s").format(record)[:2_000])


@contextmanager
def no_errors_logged() -> Iterator[None]:
    """Fail if an error is logged inside."""
    errors = _Errors()
    logging.getLogger().addHandler(errors)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(errors)
    assert not errors.found, "\n".join(errors.found)


def play(scenario: Scenario, **settings: Any) -> None:
    """Run a scenario with a cluster of two nodes in virtual time.

    The cluster has a topic of two partitions. No error may be logged, and every invariant must hold
    afterwards. Keywords are settings.
    """

    async def main() -> None:
        try:
            async with AsyncCluster(ClusterSettings(**{"nodes": 2} | settings)) as cluster:
                cluster.create_topic(TOPIC, partitions=2)
                cluster.create_offsets_topic()
                await asyncio.sleep(1)  # In virtual time: the followers fetch.
                await scenario(cluster)
                check_invariants(cluster)
        finally:
            await Client.close_all()

    with no_errors_logged():
        run(main)


@pytest.fixture
def run_scenario() -> RunScenario:
    """Return `play`."""
    return play


def check_invariants(cluster: AsyncCluster) -> None:
    """Assert every invariant of the cluster."""
    cluster.check()
    for node in cluster.nodes:
        node.groups.check()


async def count_delayed_requests(cluster: AsyncCluster) -> int:
    """Return the number of clients' requests that wait, of those that end with their connection."""
    for node in cluster.nodes:
        cluster.pause_replication(node.node_id)
    await asyncio.sleep(2 * cluster.settings.replica_fetch_wait_max_ms / 1_000)
    found = sum(
        node.purgatories[name].num_delayed
        for node in cluster.nodes
        for name in ("Produce", "Fetch", "Throttle")
    )
    for node in cluster.nodes:
        cluster.resume_replication(node.node_id)
    return found
