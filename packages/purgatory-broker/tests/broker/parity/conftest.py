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
from tests.broker.parity.secured import MECHANISMS, PASSWORDS, SUPER_USERS, secured_kafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Run Apache Kafka with three nodes."""
    with kafka_of_three_nodes(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    """Run this broker with three nodes and the same settings."""
    with LightCluster(
        nodes=3, sasl_users={PLAIN_USER: PLAIN_PASSWORD}, **_shared_settings()
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Run Apache Kafka with an authorizer."""
    with secured_kafka(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ours_secured() -> Iterator[Cluster]:
    """Run this broker with an authorizer and the same users."""
    with LightCluster(
        authorizer=True,
        super_users=SUPER_USERS,
        sasl_users=PASSWORDS,
        sasl_enabled_mechanisms=MECHANISMS,
        **_shared_settings(),
    ) as cluster:
        yield cluster


def _shared_settings() -> dict[str, Any]:
    settings: dict[str, Any] = {
        name.replace(".", "_"): value for name, value in SHARED_SETTINGS.items()
    }
    return settings | {
        "log_retention_ms": None,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        # As Kafka here: one node coordinates all transactional ids.
        "transaction_state_log_num_partitions": 1,
    }
