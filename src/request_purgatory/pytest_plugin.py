"""Fixtures for tests that need Kafka: pytest finds them where the package is installed, and they need its extra `broker`.

    def test_order_is_sent(kafka_cluster):
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap, acks="all")

Set up by options in `pytest.ini` or `pyproject.toml`: `kafka_nodes`, and `kafka_subprocess` for a
process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.cluster_client import RunningCluster

_numbers = count()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The settings in pytest's configuration file."""
    parser.addini("kafka_nodes", "nodes of the clusters that the fixtures make", default="1")
    parser.addini(
        "kafka_subprocess", "give each cluster a process of its own", type="bool", default=False
    )


@pytest.fixture(scope="session")
def make_kafka_cluster(pytestconfig: pytest.Config) -> Iterator[Callable[..., RunningCluster]]:
    """Makes clusters: `make_kafka_cluster(nodes=3, min_insync_replicas=2)`.

    Each ends with the session at the latest.
    """
    # Not above: this module is imported by every pytest of an environment that has the package,
    # with the extra or without.
    try:
        from request_purgatory.broker import Cluster, ClusterProcess
    except ModuleNotFoundError as missing:
        pytest.fail(
            f"{missing.name!r} is not installed: pip install 'request-purgatory[broker]'",
            pytrace=False,
        )
    in_process = pytestconfig.getini("kafka_subprocess")
    with ExitStack() as running:

        def make(**settings: Any) -> RunningCluster:
            settings.setdefault("nodes", int(pytestconfig.getini("kafka_nodes")))
            cluster: RunningCluster = (
                ClusterProcess(**settings) if in_process else Cluster(**settings)
            )
            return running.enter_context(cluster)

        yield make


@pytest.fixture(scope="session")
def kafka_cluster_of_session(make_kafka_cluster: Callable[..., RunningCluster]) -> RunningCluster:
    """One cluster for all tests of the session."""
    return make_kafka_cluster()


@pytest.fixture
def kafka_cluster(make_kafka_cluster: Callable[..., RunningCluster]) -> Iterator[RunningCluster]:
    """A cluster for this test alone.

    Starting one takes some milliseconds, in a process of its own some hundred.
    """
    cluster = make_kafka_cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def kafka_topic(kafka_cluster_of_session: RunningCluster, request: pytest.FixtureRequest) -> str:
    """A new topic of the session's cluster, with a name that no other test has."""
    name = f"{request.node.originalname or request.node.name}-{next(_numbers)}"
    kafka_cluster_of_session.create_topic(name)
    return name
