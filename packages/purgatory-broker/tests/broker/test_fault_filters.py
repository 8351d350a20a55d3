"""Faults that are limited to topics, partitions, groups and clients, and their hits."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from purgatory_broker import Cluster
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.registry import APIS, find_api
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.fetch_sessions import FetchSessions
from purgatory_broker.request_context import Subject
from purgatory_broker.sharing.share_sessions import ShareSessions
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch, fetch_fields, produce, records
from tests.broker.test_faults import example

FAILED = ErrorCode.KAFKA_STORAGE_ERROR
TOPIC_ID = uuid.UUID(int=7)


@pytest.fixture
def client(connect: Connect, cluster: Cluster) -> RawClient:
    """Return a connection to the node that leads all partitions of the topics `t` and `u`."""
    for name in ("t", "u"):
        cluster.create_topic(name, partitions=2)
        for number in range(2):
            leads = cluster.describe_topic(name)[number]["leader"] == 0
            if not leads:
                cluster.move_leader(name, number, 0)
    return connect(cluster.bootstrap_servers.split(",")[0])


def produced(client: RawClient, topic: str, partition: int) -> ErrorCode:
    """Produce a record, and return the error."""
    return ErrorCode(produce(client, topic, b"x", partition=partition).error_code)


def test_error_is_limited_to_a_partition(cluster: Cluster, client: RawClient) -> None:
    fault = cluster.inject_request_error("Produce", FAILED.name, times=2, topic="t", partition=1)
    tried = [("u", 1), ("t", 0), ("t", 1), ("t", 1), ("t", 1)]
    assert [produced(client, *each) for each in tried] == [0, 0, FAILED, FAILED, 0]
    (found,) = cluster.faults()
    assert found == {
        "id": fault,
        "api": "Produce",
        "kind": "error",
        "error": "KAFKA_STORAGE_ERROR",
        "times": 0,
        "hits": 2,
        "node": None,
        "topic": "t",
        "partition": 1,
        "group": None,
        "transactional_id": None,
        "client_id": None,
        "when": None,
    }
    cluster.clear_faults()
    assert cluster.faults() == []


def test_error_is_limited_to_a_topic_by_its_id(cluster: Cluster, client: RawClient) -> None:
    cluster.inject_request_error("Fetch", FAILED.name, times=None, topic="t")
    found = client.call("Metadata", 12, topics=None).topics
    ids = {topic.name: topic.topic_id for topic in found}

    def fetched(name: str) -> int:
        fields = fetch_fields(name, 0)
        fields["topics"][0]["topic_id"] = ids[name]
        del fields["topics"][0]["topic"]
        del fields["replica_id"]
        answer = client.call("Fetch", 15, **fields)
        return int(answer.error_code) or answer.responses[0].partitions[0].error_code

    assert [fetched("t"), fetched("u"), fetched("t")] == [FAILED, 0, FAILED]
    assert cluster.faults()[0]["hits"] == 2


def test_fetch_session_names_its_partitions(cluster: Cluster, client: RawClient) -> None:
    first = client.call("Fetch", 11, **fetch_fields("t", 0), session_epoch=0)
    assert (first.error_code, first.session_id > 0) == (0, True)
    cluster.inject_request_error("Fetch", FAILED.name, topic="t", partition=0)
    fields = fetch_fields("t", 0) | {"topics": []}
    later = client.call("Fetch", 11, **fields, session_id=first.session_id, session_epoch=1)
    assert later.error_code == 0
    assert later.responses[0].partitions[0].error_code == FAILED
    assert cluster.faults()[0]["hits"] == 1


def test_error_is_limited_to_a_group(cluster: Cluster, client: RawClient) -> None:
    for api in ("FindCoordinator", "Heartbeat"):
        cluster.inject_request_error(api, FAILED.name, times=None, group="g")
    keys = [
        client.call("FindCoordinator", 4, key_type=0, coordinator_keys=[key]).coordinators[0]
        for key in ("other", "g")
    ]
    assert [each.error_code == FAILED for each in keys] == [False, True]
    fields = {"generation_id": 1, "member_id": "m"}
    beats = [client.call("Heartbeat", 1, group_id=group, **fields) for group in ("other", "g")]
    assert [each.error_code == FAILED for each in beats] == [False, True]
    assert [each["hits"] for each in cluster.faults()] == [1, 1]


def test_error_is_limited_to_a_client_id(cluster: Cluster, client: RawClient) -> None:
    mine = cluster.inject_request_error("Produce", FAILED.name, client_id="somebody else")
    assert produced(client, "t", 0) == 0
    assert cluster.faults()[0]["hits"] == 0
    own = cluster.inject_request_error("Produce", FAILED.name, client_id="parity")
    assert own == mine + 1
    assert produced(client, "t", 0) == FAILED
    assert [each["hits"] for each in cluster.faults()] == [0, 1]


def test_response_fault_is_limited_to_a_topic(
    cluster: Cluster, client: RawClient, connect: Connect
) -> None:
    cluster.inject_response_fault("Produce", "drop", topic="t")
    assert produced(client, "u", 0) == 0
    data = [{"name": "t", "partition_data": [{"index": 0, "records": records(b"x")}]}]
    client.start("Produce", 9, acks=-1, timeout_ms=5_000, topic_data=data)
    with pytest.raises(TimeoutError):
        client.read(timeout=0.2)
    (found,) = cluster.faults()
    assert (found["kind"], found["times"], found["hits"]) == ("drop", 0, 1)
    assert fetch(connect(client.address), "t", 0).high_watermark == 1


@pytest.mark.parametrize(
    ("api", "limits", "message"),
    [
        ("Produce", {"node": 3}, "node must be between 0 and 2, got 3"),
        ("Produce", {"node": -1}, "node must be between 0 and 2, got -1"),
        (
            "Produce",
            {"group": "g"},
            "group must be left out for Produce, whose requests name no gr",
        ),
        (
            "Heartbeat",
            {"topic": "t"},
            "topic must be left out for Heartbeat, whose requests name no",
        ),
        (
            "ApiVersions",
            {"topic": "t"},
            "topic must be left out for ApiVersions, whose requests na",
        ),
        ("Heartbeat", {"partition": 0}, "partition must be left out for Heartbeat, whose requests"),
        (
            "Metadata",
            {"topic": "t", "partition": 0},
            "partition must be left out for Metadata, whose requests name no partition, got 0",
        ),
        (
            "Fetch",
            {"topic": "t", "partition": -1},
            "partition must be between 0 and 2147483647, got -1",
        ),
        (
            "Fetch",
            {"topic": "t", "partition": 2**31},
            "partition must be between 0 and 2147483647, got 2147483648",
        ),
        ("Produce", {"topic": 3}, "topic must be a str or None, got 3"),
        ("Produce", {"client_id": b"app"}, "client_id must be a str or None, got b'app'"),
        ("Produce", {"partition": 1}, "partition must be given with its topic, got 1"),
    ],
)
def test_fault_that_no_request_can_match_is_refused(
    cluster: Cluster, api: str, limits: dict[str, Any], message: str
) -> None:
    """It would leave a test green whose fault never came."""
    for inject, what in (
        (cluster.inject_request_error, FAILED.name),
        (cluster.inject_response_fault, "drop"),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            inject(api, what, **limits)
        assert str(caught.value).startswith(message)
    assert cluster.faults() == []


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("drop", {"delay_ms": 5}, "delay_ms must be left out for drop, got 5"),
        ("delay", {"delay_ms": 5, "seed": 1}, "seed must be left out for delay, got 1"),
        ("delay", {"delay_ms": 2**31}, "delay_ms must be between 1 and 2147483647, got 2147483648"),
    ],
)
def test_argument_of_another_kind_of_fault_is_refused(
    cluster: Cluster, kind: str, arguments: dict[str, int], message: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        cluster.inject_response_fault("Produce", kind, **arguments)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_fault_of_a_topic_and_a_partition_to_come_is_met(
    cluster: Cluster, connect: Connect
) -> None:
    cluster.inject_request_error("Produce", FAILED.name, topic="later", partition=1, node=0)
    cluster.inject_request_error("JoinGroup", FAILED.name, group="later")
    cluster.create_topic("later", partitions=2)
    if cluster.describe_topic("later")[1]["leader"] != 0:
        cluster.move_leader("later", 1, 0)
    assert produced(connect(cluster.bootstrap_servers.split(",")[0]), "later", 1) == FAILED


#: APIs whose requests name topics, partitions of them, groups, and transactional ids.
NAMES_TOPICS = {
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "CreateTopics",
    "DeleteTopics", "DeleteRecords", "OffsetForLeaderEpoch", "CreatePartitions", "OffsetDelete",
    "DescribeLogDirs", "DescribeProducers", "ElectLeaders", "ConsumerGroupHeartbeat",
    "AlterPartitionReassignments", "ListPartitionReassignments", "DescribeQuorum",
    "AddPartitionsToTxn", "TxnOffsetCommit", "WriteTxnMarkers", "DescribeTopicPartitions",
    "ShareFetch", "ShareAcknowledge", "InitializeShareGroupState", "ReadShareGroupState",
    "WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary",
    "DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets",
}  # fmt: skip
NAMES_PARTITIONS = NAMES_TOPICS - {
    "Metadata", "CreateTopics", "DeleteTopics", "CreatePartitions", "DescribeTopicPartitions",
    "DeleteShareGroupOffsets",
}  # fmt: skip
NAMES_GROUPS = {
    "OffsetCommit", "OffsetFetch", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup",
    "DescribeGroups", "DeleteGroups", "OffsetDelete", "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe", "AddOffsetsToTxn", "TxnOffsetCommit", "ShareGroupHeartbeat",
    "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge", "InitializeShareGroupState",
    "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState",
    "ReadShareGroupStateSummary", "DescribeShareGroupOffsets", "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
}  # fmt: skip
NAMES_TRANSACTIONAL_IDS = {
    "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit",
    "DescribeTransactions", "Produce",
}  # fmt: skip


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_subjects_of_every_api_at_every_version(api: Any) -> None:
    for version in range(api.min_version, api.max_version + 1):
        found = subjects(api.name, version, example(api, version))
        assert found.topics == ({"x"} if api.name in NAMES_TOPICS else set()), version
        expected = {TopicPartition("x", 1)} if api.name in NAMES_PARTITIONS else set()
        assert found.partitions == expected, version
        # Version 0 has no type of the key, which is a group's. In later ones the type is 1.
        is_group = api.name in NAMES_GROUPS or (api.name, version) == ("FindCoordinator", 0)
        assert found.groups == ({"x"} if is_group else set()), version
        is_id = api.name in NAMES_TRANSACTIONAL_IDS
        # Version 0 has no type of the key.
        is_id |= api.name == "FindCoordinator" and version > 0
        assert found.transactional_ids == ({"x"} if is_id else set()), version
        kinds = zip(Subject, found, strict=True)
        assert {kind for kind, named in kinds if named} <= api.names, version


def test_apis_declare_what_their_requests_may_name() -> None:
    configs = {"DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"}
    expected = {
        Subject.TOPIC: NAMES_TOPICS | configs,
        Subject.PARTITION: NAMES_PARTITIONS,
        Subject.GROUP: NAMES_GROUPS | {"FindCoordinator"},
        Subject.TRANSACTIONAL_ID: NAMES_TRANSACTIONAL_IDS | {"FindCoordinator"},
    }
    for subject, names in expected.items():
        assert {api.name for api in APIS.values() if subject in api.names} == names


def test_subjects_of_configs_and_coordinators() -> None:
    resources = [
        SimpleNamespace(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in ((2, "topic"), (4, "0"))
    ]
    request = SimpleNamespace(resources=resources, include_synonyms=False)
    assert subjects("DescribeConfigs", 4, request).topics == {"topic"}
    for kind, groups in ((0, {"a", "b"}), (1, set())):
        request = SimpleNamespace(key_type=kind, key="", coordinator_keys=["a", "b"])
        found = subjects("FindCoordinator", 4, request)
        assert found.groups == groups
        assert found.transactional_ids == {"a", "b"} - groups


def subjects(name: str, version: int, request: Any) -> Any:
    """Return what a request names, at a broker that knows the topic `x` by its id."""
    broker: Any = SimpleNamespace(
        metadata=SimpleNamespace(topic_name={TOPIC_ID: "x"}.get),
        fetch_sessions=FetchSessions(),
        share_members=SimpleNamespace(sessions=ShareSessions(1)),
    )
    api = find_api(name)
    return api.subjects(broker, request)
