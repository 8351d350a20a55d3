"""Apache Kafka with the feature `share.version`, which is in preview in Kafka 4.1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.broker.kafka_server import (
    KafkaCluster,
    broker_libraries,
    next_broker_libraries,
    real_kafka,
    run_tool,
    tools_libraries,
)


@contextmanager
def kafka_with_share_groups(folder: Path) -> Iterator[KafkaCluster]:
    """Run Apache Kafka with one node for a block, with its data in `folder`."""
    with real_kafka(broker_libraries(), folder, nodes=1) as cluster:
        upgraded = run_tool(
            tools_libraries(),
            "FeatureCommand",
            "--bootstrap-server",
            cluster.bootstrap_servers,
            "upgrade",
            "--feature",
            "share.version=1",
        )
        assert upgraded.returncode == 0, upgraded.stdout + upgraded.stderr
        yield cluster


@contextmanager
def next_kafka(folder: Path) -> Iterator[KafkaCluster]:
    """Run Kafka 4.2, which has the feature from its start."""
    with real_kafka(next_broker_libraries(), folder, nodes=1) as cluster:
        yield cluster
