"""Fixtures of the clients' tests; KAFKA_UNDER_TEST=real runs them on Apache Kafka."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.kafka_server import (
    SHARED_SETTINGS,
    broker_libraries,
    real_kafka,
    tools_libraries,
)
from tests.broker.kcat import Kcat, find_kcat

#: Of the cluster, beside `SHARED_SETTINGS`: members of the consumer protocol learn of changes soon,
#: and no records are deleted for their age, as some have a time of 2023.
_SETTINGS = SHARED_SETTINGS | {
    "log.retention.check.interval.ms": 3_600_000,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500,
}
_IS_REAL = os.environ.get("KAFKA_UNDER_TEST") == "real"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests in one process if their cluster is Apache Kafka."""
    if _IS_REAL:
        for item in items:
            if "bootstrap_servers" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group("kafka"))


@pytest.fixture(scope="package")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the addresses of three nodes, "host:port,host:port,host:port"."""
    if _IS_REAL:
        folder = tmp_path_factory.mktemp("kafka")
        with real_kafka(broker_libraries(), folder, nodes=3, settings=_SETTINGS) as kafka:
            yield kafka.bootstrap_servers
    else:
        from purgatory_broker import Cluster

        settings: dict[str, Any] = {
            name.replace(".", "_"): value for name, value in _SETTINGS.items()
        }
        with Cluster(nodes=3, **settings) as cluster:
            yield cluster.bootstrap_servers


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return a unique name for a topic or a group."""
    return f"{request.node.originalname.removeprefix('test_')[:60]}.{secrets.token_hex(4)}"


@pytest.fixture(scope="session")
def kcat() -> Kcat:
    """Return kcat, or skip the test."""
    return find_kcat()


@pytest.fixture(scope="session")
def tools() -> Path:
    """Return the folder of Kafka's console clients, or skip the test."""
    return tools_libraries()
