"""Fixtures of the schema registry's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from purgatory_broker import Cluster


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """Run a cluster of one node."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shared_client(shared_cluster: Cluster) -> Any:
    """Return a client, which takes a fifth of a second to make."""
    url = shared_cluster.start_schema_registry()
    client = SchemaRegistryClient({"url": url, "max.retries": 0})
    # Its connection belongs to this fixture, and not to the first test.
    client.get_subjects()
    return client


@pytest.fixture
def client(shared_cluster: Cluster, shared_client: Any) -> Any:
    """Return a client of an empty registry."""
    shared_cluster.reset()
    shared_client.clear_caches()
    return shared_client
