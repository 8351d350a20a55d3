"""Apache Kafka as the cases use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.broker.kafka_server import KafkaCluster, broker_libraries, real_kafka


@contextmanager
def kafka_of_three_nodes(folder: Path) -> Iterator[KafkaCluster]:
    """Run Apache Kafka for a block, with its data in `folder`."""
    with real_kafka(broker_libraries(), folder, nodes=3) as cluster:
        yield cluster
