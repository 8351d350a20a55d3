"""Short forms of Produce and Fetch requests over the wire."""

from __future__ import annotations

from typing import Any

from purgatory_broker.cluster.cluster_client import ClusterClient
from purgatory_broker.log.record import build_batch
from tests.broker.conftest import Connect
from tests.broker.parity.raw import RawClient

NOW_MS = 1_700_000_000_000


def records(*values: bytes) -> bytes:
    """Return a batch of records without keys."""
    return bytes(build_batch([(None, value) for value in values], NOW_MS))


def produce(
    client: RawClient,
    topic: str,
    *values: bytes,
    acks: int = -1,
    timeout_ms: int = 5_000,
    partition: int = 0,
) -> Any:
    """Send records to a partition, and return its part of the response."""
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records(*values)}]}]
    answer = client.call("Produce", 9, acks=acks, timeout_ms=timeout_ms, topic_data=data)
    return answer.responses[0].partition_responses[0]


def fetch_fields(
    topic: str, offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1, partition: int = 0
) -> dict[str, Any]:
    """Return the fields of a Fetch request for one partition."""
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 2**20}
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": 2**25,
        "isolation_level": 0,
        "topics": [{"topic": topic, "partitions": [wanted]}],
        "forgotten_topics_data": [],
    }


def fetch(client: RawClient, topic: str, offset: int, **options: Any) -> Any:
    """Fetch one partition, and return its part of the response."""
    return (
        client.call("Fetch", 11, **fetch_fields(topic, offset, **options))
        .responses[0]
        .partitions[0]
    )


def leader_client(cluster: ClusterClient, topic: str, connect: Connect) -> RawClient:
    """Connect to the leader of a topic's first partition."""
    leader = cluster.describe_topic(topic)[0]["leader"]
    return connect(cluster.bootstrap_servers.split(",")[leader])
