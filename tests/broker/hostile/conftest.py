"""A cluster in virtual time that is attacked, and what must be so afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.settings import ClusterSettings
from tests.broker.hostile.client import Client
from tests.broker.hostile.requests import TOPIC
from tests.unit.aio.virtual import run

Scenario = Callable[[AsyncCluster], Coroutine[Any, Any, None]]
Attack = Callable[..., None]


class _Errors(logging.Handler):
    """Keeps what is logged as an error, by whoever."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(logging.Formatter("%(name)s: %(message)s").format(record)[:2_000])


@contextmanager
def nothing_logged() -> Iterator[None]:
    """Fail if anything is logged as an error inside."""
    errors = _Errors()
    logging.getLogger().addHandler(errors)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(errors)
    assert not errors.found, "\n".join(errors.found)


@pytest.fixture
def attack() -> Attack:
    """Runs a scenario against a cluster of two nodes in virtual time, with a topic of two partitions; nothing may be logged as an
    error, and every invariant must hold after it. Keywords are settings."""

    def play(scenario: Scenario, **settings: Any) -> None:
        async def main() -> None:
            try:
                async with AsyncCluster(ClusterSettings(**{"nodes": 2} | settings)) as cluster:
                    cluster.create_topic(TOPIC, partitions=2)
                    cluster.create_offsets_topic()
                    await asyncio.sleep(1)
                    await scenario(cluster)
                    check(cluster)
            finally:
                await Client.close_all()

        with nothing_logged():
            run(main)

    return play


def check(cluster: AsyncCluster) -> None:
    """Assert every invariant of the cluster."""
    cluster.check()
    for node in cluster.nodes:
        node.groups.check()


async def delayed(cluster: AsyncCluster) -> int:
    """How many requests of clients wait, of those that end with their connection.

    Followers fetch nothing meanwhile.
    """
    for node in cluster.nodes:
        cluster.freeze(node.node_id)
    await asyncio.sleep(2 * cluster.settings.replica_fetch_wait_max_ms / 1_000)
    found = sum(
        node.purgatories[name].num_delayed
        for node in cluster.nodes
        for name in ("Produce", "Fetch", "Throttle")
    )
    for node in cluster.nodes:
        cluster.thaw(node.node_id)
    return found
