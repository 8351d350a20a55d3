"""The clusters of the comparison: Apache Kafka's and this broker's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from purgatory_broker import Cluster as LightCluster
from tests.broker.kafka_server import (
    PLAIN_PASSWORD,
    PLAIN_USER,
    SHARED_SETTINGS,
    KafkaCluster,
)
from tests.broker.parity.case_harness import Cluster
from tests.broker.parity.real import kafka_of_three_nodes


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Run Apache Kafka with three nodes."""
    with kafka_of_three_nodes(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    """Run this broker with three nodes and the same settings."""
    settings: dict[str, Any] = {
        name.replace(".", "_"): value for name, value in SHARED_SETTINGS.items()
    }
    settings |= {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl_users": {PLAIN_USER: PLAIN_PASSWORD},
        # As Kafka here: one node coordinates all transactional ids.
        "transaction_state_log_num_partitions": 1,
    }
    with LightCluster(nodes=3, log_retention_ms=None, **settings) as cluster:
        yield cluster
