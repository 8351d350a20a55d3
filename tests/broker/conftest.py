"""Fixtures of the broker's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from request_purgatory.broker import Cluster
from tests.broker.parity.raw import RawClient


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Run a cluster of three nodes in memory for one test."""
    with Cluster(nodes=3) as running:
        yield running


@pytest.fixture
def connect() -> Iterator[Callable[[str], RawClient]]:
    """Return a function that connects to a node; the connections close with the test."""
    clients: list[RawClient] = []

    def make(address: str) -> RawClient:
        clients.append(RawClient(address))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
