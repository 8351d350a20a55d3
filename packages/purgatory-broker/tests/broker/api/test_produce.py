"""Produce requests with topic ids."""

from __future__ import annotations

import uuid

import pytest

from purgatory_broker import Cluster
from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.conftest import Connect
from tests.broker.raw_requests import fetch, records


@pytest.mark.parametrize("topic_id", [uuid.UUID(int=0), uuid.UUID(int=5)])
def test_unknown_topic_id_is_no_name(
    cluster: Cluster, connect: Connect, topic_id: uuid.UUID
) -> None:
    names = ["None", str(topic_id)]
    for name in names:
        cluster.create_topic(name)
    client = connect(cluster.bootstrap_servers.split(",")[0])
    data = [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": records(b"x")}]}]
    answer = client.call("Produce", 13, acks=1, timeout_ms=5_000, topic_data=data)
    (topic,) = answer.responses
    (partition,) = topic.partition_responses
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert topic.topic_id in (topic_id, None)
    leaders = [cluster.describe_topic(name)[0]["leader"] for name in names]
    for name, leader in zip(names, leaders, strict=True):
        address = cluster.bootstrap_servers.split(",")[leader]
        assert fetch(connect(address), name, 0).high_watermark == 0
