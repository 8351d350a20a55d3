"""Fixtures of the comparison: Kafka's cluster and ours, each started once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker.kafka_server import SHARED_SETTINGS, KafkaCluster
from tests.broker.parity.real import kafka_of_three_nodes
from tests.broker.parity.scene import Cluster


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Kafka, with three nodes."""
    with kafka_of_three_nodes(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    """Our broker, with three nodes and the same settings."""
    from request_purgatory import broker

    settings: dict[str, Any] = {
        name.replace(".", "_"): value for name, value in SHARED_SETTINGS.items()
    }
    with broker.Cluster(nodes=3, log_retention_ms=None, **settings) as cluster:
        yield cluster
