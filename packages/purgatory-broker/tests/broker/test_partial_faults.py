"""Errors that are injected for some of the partitions that a request names."""

from __future__ import annotations

import time
from typing import Any

import pytest

from purgatory_broker import Cluster
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.partial_errors import PARTIAL_APIS
from purgatory_broker.cluster._commands.fault_commands import FaultCommands
from tests.broker.conftest import Connect
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch, produce, records
from tests.broker.test_transaction_commands import RawProducer

FAILED = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def cluster() -> Any:
    with Cluster() as running:
        running.create_topic("t", partitions=2)
        running.create_topic("u", partitions=1)
        yield running


@pytest.fixture
def client(cluster: Cluster, connect: Connect) -> RawClient:
    return connect(cluster.bootstrap_servers)


def inject(cluster: Cluster, api: str, **limits: Any) -> int:
    return cluster.inject_request_error(api, FAILED.name, **{"topic": "t", "partition": 1} | limits)


def errors_of(topics: Any, partitions: str = "partitions") -> dict[tuple[str, int], int]:
    """Return the errors by topic and partition; each is named once."""
    found = [
        (topic.name if hasattr(topic, "name") else topic.topic, part)
        for topic in topics
        for part in getattr(topic, partitions)
    ]
    index = next(
        name for name in ("partition_index", "index", "partition") if hasattr(found[0][1], name)
    )
    errors = {(name, getattr(part, index)): part.error_code for name, part in found}
    assert len(errors) == len(found)
    return errors


EVERYWHERE = [("t", 0), ("t", 1), ("u", 0)]
EXPECTED = {("t", 0): 0, ("t", 1): FAILED, ("u", 0): 0}


def by_topic(name: str, index: str, part: dict[str, Any], partitions: str = "partitions") -> Any:
    return [
        {name: topic, partitions: [{index: each, **part} for each in range(count)]}
        for topic, count in (("t", 2), ("u", 1))
    ]


def test_produce_appends_to_the_other_partitions(cluster: Cluster, client: RawClient) -> None:
    inject(cluster, "Produce")
    data = by_topic("name", "index", {"records": records(b"x")}, "partition_data")
    answer = client.call("Produce", 9, acks=-1, timeout_ms=5_000, topic_data=data)
    assert errors_of(answer.responses, "partition_responses") == EXPECTED
    appended = [(each.partition, each.value) for each in cluster.records("t")]
    assert appended == [(0, b"x")]
    assert len(cluster.records("u")) == 1
    assert cluster.faults()[0]["hits"] == 1


def test_produce_by_topic_ids(cluster: Cluster, client: RawClient) -> None:
    found = client.call("Metadata", 12, topics=None).topics
    ids = {topic.name: topic.topic_id for topic in found}
    inject(cluster, "Produce")
    data = by_topic("name", "index", {"records": records(b"x")}, "partition_data")
    for topic in data:
        topic["topic_id"] = ids[topic.pop("name")]
    answer = client.call("Produce", 13, acks=-1, timeout_ms=5_000, topic_data=data)
    errors = [
        (topic.topic_id, each.index, each.error_code)
        for topic in answer.responses
        for each in topic.partition_responses
    ]
    expected = [(ids["t"], 0, 0), (ids["t"], 1, FAILED), (ids["u"], 0, 0)]
    assert sorted(errors, key=str) == sorted(expected, key=str)


def test_produce_without_a_response_leaves_out_the_partition(
    cluster: Cluster, client: RawClient
) -> None:
    inject(cluster, "Produce")
    data = by_topic("name", "index", {"records": records(b"x")}, "partition_data")
    client.start("Produce", 9, acks=0, timeout_ms=5_000, topic_data=data)
    cluster.wait_for(records=("t", 1))
    assert [each.partition for each in cluster.records("t")] == [0]


def test_request_for_the_failing_partition_alone_is_not_handled(
    cluster: Cluster, client: RawClient
) -> None:
    inject(cluster, "Produce", partition=None)
    assert produce(client, "t", b"x", partition=1).error_code == FAILED
    assert cluster.records("t") == []


def fetch_all(client: RawClient, **fields: Any) -> Any:
    part = {"fetch_offset": 0, "partition_max_bytes": 2**20}
    given = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 2**25,
        "isolation_level": 0,
        "topics": by_topic("topic", "partition", part),
        "forgotten_topics_data": [],
    }
    return client.call("Fetch", 11, **given | fields)


def test_fetch_reads_the_other_partitions_at_once(cluster: Cluster, client: RawClient) -> None:
    produce(client, "t", b"x", partition=1)
    inject(cluster, "Fetch")
    began = time.monotonic()
    answer = fetch_all(client, max_wait_ms=60_000, min_bytes=2**20)
    assert time.monotonic() - began < 30
    assert errors_of(answer.responses) == EXPECTED
    (failed,) = (each for topic in answer.responses for each in topic.partitions if each.error_code)
    assert not failed.records
    assert failed.high_watermark == -1
    assert fetch(client, "t", 0, partition=1).records


def test_fetch_session_goes_on_after_the_error(cluster: Cluster, client: RawClient) -> None:
    first = fetch_all(client, session_epoch=0)
    inject(cluster, "Fetch")
    session = {"session_id": first.session_id, "topics": []}
    produce(client, "t", b"x", partition=1)
    failed = fetch_all(client, session_epoch=1, **session)
    assert (failed.error_code, errors_of(failed.responses)) == (0, {("t", 1): FAILED})
    later = fetch_all(client, session_epoch=2, **session)
    assert (later.error_code, errors_of(later.responses)) == (0, {("t", 1): 0})
    assert later.responses[0].partitions[0].records


def test_offsets_are_listed_of_the_other_partitions(cluster: Cluster, client: RawClient) -> None:
    inject(cluster, "ListOffsets")
    part = {"current_leader_epoch": -1, "timestamp": -1}
    topics = by_topic("name", "partition_index", part)
    answer = client.call("ListOffsets", 5, replica_id=-1, isolation_level=0, topics=topics)
    assert errors_of(answer.topics) == EXPECTED


def test_ends_of_epochs_are_told_of_the_other_partitions(
    cluster: Cluster, client: RawClient
) -> None:
    inject(cluster, "OffsetForLeaderEpoch")
    part = {"current_leader_epoch": -1, "leader_epoch": 0}
    topics = by_topic("topic", "partition", part)
    answer = client.call("OffsetForLeaderEpoch", 4, replica_id=-1, topics=topics)
    assert errors_of(answer.topics) == EXPECTED


def test_records_are_deleted_of_the_other_partitions(cluster: Cluster, client: RawClient) -> None:
    for topic, partition in EVERYWHERE:
        produce(client, topic, b"x", partition=partition)
    inject(cluster, "DeleteRecords")
    topics = by_topic("name", "partition_index", {"offset": -1})
    answer = client.call("DeleteRecords", 1, timeout_ms=5_000, topics=topics)
    assert errors_of(answer.topics) == EXPECTED
    assert [each.partition for each in cluster.records("t")] == [1]


def coordinator(client: RawClient, kind: int = 0) -> None:
    while client.call("FindCoordinator", 3, key="g", key_type=kind).error_code:
        pass


COMMITTED = {"committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}


def test_offsets_of_the_other_partitions_are_committed(cluster: Cluster, client: RawClient) -> None:
    coordinator(client)
    inject(cluster, "OffsetCommit")
    answer = client.call(
        "OffsetCommit",
        8,
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=by_topic("name", "partition_index", COMMITTED),
    )
    assert errors_of(answer.topics) == EXPECTED
    assert cluster.groups()["g"].offsets == {"t": {0: 5}, "u": {0: 5}}


def test_transactional_offsets_of_the_other_partitions_are_committed(
    cluster: Cluster, client: RawClient, connect: Connect
) -> None:
    coordinator(client)
    producer = RawProducer(cluster, connect)
    producer.init()
    inject(cluster, "TxnOffsetCommit")
    answer = client.call(
        "TxnOffsetCommit",
        5,
        transactional_id="payments",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=by_topic("name", "partition_index", COMMITTED),
    )
    assert errors_of(answer.topics) == EXPECTED
    producer.end()
    cluster.wait_for(committed=("g", "u", 0, 5))
    assert cluster.groups()["g"].offsets == {"t": {0: 5}, "u": {0: 5}}


def test_metadata_of_the_other_topics_is_told(cluster: Cluster, client: RawClient) -> None:
    cluster.inject_request_error("Metadata", "LEADER_NOT_AVAILABLE", topic="t")
    named = [{"name": name} for name in ("t", "u")]
    answer = client.call("Metadata", 8, topics=named, allow_auto_topic_creation=False)
    found = {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics}
    assert found == {"t": (ErrorCode.LEADER_NOT_AVAILABLE, 0), "u": (0, 1)}
    assert answer.brokers


def test_error_of_a_topic_is_that_of_all_its_partitions(
    cluster: Cluster, client: RawClient
) -> None:
    inject(cluster, "ListOffsets", partition=None)
    part = {"current_leader_epoch": -1, "timestamp": -1}
    topics = by_topic("name", "partition_index", part)
    answer = client.call("ListOffsets", 5, replica_id=-1, isolation_level=0, topics=topics)
    assert errors_of(answer.topics) == {("t", 0): FAILED, ("t", 1): FAILED, ("u", 0): 0}


def test_docs_name_the_apis_whose_requests_may_fail_in_parts() -> None:
    text = " ".join((FaultCommands.inject_request_error.__doc__ or "").split())
    listed = text.partition("is handled: in ")[2].partition(", whose responses")[0]
    assert set(listed.replace(" and ", ", ").split(", ")) == PARTIAL_APIS
