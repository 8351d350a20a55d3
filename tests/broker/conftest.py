"""Clusters for the tests of the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from request_purgatory.broker import Cluster
from tests.broker.parity.raw import RawClient


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three nodes, in memory, for one test."""
    with Cluster(nodes=3) as running:
        yield running


@pytest.fixture
def connect() -> Iterator[Callable[[str], RawClient]]:
    """Makes connections to nodes, which end with the test."""
    clients: list[RawClient] = []

    def make(address: str) -> RawClient:
        clients.append(RawClient(address))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
