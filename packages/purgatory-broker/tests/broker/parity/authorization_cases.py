"""What each request is answered with, by the one operation that its sender is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kafka.protocol import admin, consumer, metadata, producer

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.parity.batches import TRANSACTIONAL, batch, changed
from tests.broker.parity.case_harness import CaseHarness, fetch_fields, produce_fields
from tests.broker.parity.raw import ConnectionClosedError, RawClient, message
from tests.broker.parity.secured import OPERATIONS, log_in, secured_case
from tests.broker.wire import consumer_groups

_KINDS = {"topic": 2, "group": 3, "cluster": 4, "transactional-id": 5}
_TOPIC, _LITERAL, _PREFIXED, _ALLOW = 2, 3, 4, 3


class _Names(NamedTuple):
    topic: str
    topic_id: Any
    #: Does not exist.
    gone: str
    group: str
    transaction: str


#: Lists of any size, or that may be null instead of empty.
_UNSIZED = {"aborted_transactions", "api_keys", "brokers", "configs", "current_voters", "nodes"}
_INIT = {
    "transactional_id": None,
    "transaction_timeout_ms": 60_000,
    "producer_id": -1,
    "producer_epoch": -1,
}
_Request = tuple[str, int, dict[str, Any]]


def _request_class(api: str) -> Any:
    name = f"{api}Request"
    modules = (admin, consumer, metadata, producer, consumer_groups)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def _shape(part: Any, name: str = "") -> Iterator[str]:
    """Yield the errors and authorized operations of a response, and the sizes of its lists."""
    if isinstance(part, dict):
        for key, value in part.items():
            yield from _shape(value, key)
    elif isinstance(part, (list, tuple)):
        if name not in _UNSIZED:
            yield f"{len(part)} {name}"
        elif name == "configs":
            yield "configs" if part else "no configs"
        for each in part:
            yield from _shape(each, name)
    elif name.endswith("error_code"):
        yield ErrorCode(part).name
    elif name.endswith("authorized_operations") and part is not None:
        yield f"operations {sorted(part) if isinstance(part, (set, frozenset)) else part}"


def _answered(client: RawClient, request: _Request) -> str:
    api, version, fields = request
    try:
        response = client.send(message(_request_class(api), fields), version)
    except ConnectionClosedError:
        return "closed"
    return ", ".join(sorted(set(_shape(response.to_dict(json=False)))))


def _grant(harness: CaseHarness, names: _Names) -> None:
    """Allow each user of `OPERATIONS` one operation on what the case uses."""
    resources = {
        "topic": (names.topic, names.gone),
        "group": (names.group,),
        "cluster": ("kafka-cluster",),
        "transactional-id": (names.transaction,),
    }
    creations = [
        {
            "resource_type": _KINDS[kind],
            "resource_name": resource,
            "resource_pattern_type": _LITERAL,
            "principal": f"User:{kind}-{operation}",
            "host": "*",
            "operation": code,
            "permission_type": _ALLOW,
        }
        for kind, operations in OPERATIONS.items()
        for code, operation in operations.items()
        for resource in resources[kind]
    ]
    created = harness.node_0.call("CreateAcls", 3, creations=creations)
    assert not any(each.error_code for each in created.results), created
    # They are known in the order of their creation.
    last = log_in(harness, "transactional-id-DESCRIBE")
    asked = {"key_type": 1, "coordinator_keys": [names.transaction]}
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    harness.until(
        lambda: last.call("FindCoordinator", 4, **asked).coordinators[0].error_code != denied
    )


def _seen(harness: CaseHarness, requests: Callable[[_Names], dict[str, _Request]]) -> Any:
    """Send requests as each user, and return the users by what they are answered with.

    Those who get the answer of bob, who may do nothing, are left out.
    """
    topic = harness.topic()
    names = _Names(
        topic,
        harness.topic_id(topic),
        harness.name("gone"),
        harness.name("group"),
        harness.name("transaction"),
    )
    harness.coordinator(names.group)
    # A broker begins without producer ids.
    harness.until(lambda: not harness.node_0.call("InitProducerId", 4, **_INIT).error_code)
    _grant(harness, names)
    users = [
        f"{kind}-{operation}"
        for kind, operations in OPERATIONS.items()
        for operation in operations.values()
    ]
    clients = {user: log_in(harness, user) for user in ["bob", *users]}
    seen: dict[str, Any] = {}
    for label, request in requests(names).items():
        by_answer: dict[str, list[str]] = {}
        for user, client in clients.items():
            by_answer.setdefault(_answered(client, request), []).append(user)
        seen[label] = {
            answer: "others" if "bob" in users else users for answer, users in by_answer.items()
        }
    return seen


def _partition(**fields: Any) -> list[dict[str, Any]]:
    return [{"partition_index": 0, **fields}]


def _consumer(names: _Names) -> dict[str, _Request]:
    listed = {"timestamp": -1, "current_leader_epoch": -1}
    epoch = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    topics = [{"name": names.topic}, {"name": names.gone}]
    metadata = {
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
    }
    cluster = {"include_cluster_authorized_operations": True}
    by_id = fetch_fields("", topic_id=names.topic_id)
    session = fetch_fields(names.topic) | {"session_epoch": 0}
    fetch = fetch_fields(names.topic)
    follower = fetch_fields(names.topic, leader_epoch=0) | {"replica_id": 5}
    offsets = {"topics": [{"name": names.topic, "partitions": _partition(**listed)}]}
    return {
        "Metadata": ("Metadata", 12, metadata | {"topics": topics}),
        "Metadata by id": (
            "Metadata",
            12,
            metadata | {"topics": [{"name": None, "topic_id": names.topic_id}]},
        ),
        "Metadata v8": ("Metadata", 8, metadata | cluster | {"topics": topics}),
        "DescribeCluster": ("DescribeCluster", 0, cluster),
        "Fetch": ("Fetch", 12, fetch),
        "Fetch by id": ("Fetch", 13, by_id),
        "Fetch of a session": ("Fetch", 12, session),
        "Fetch of a follower": ("Fetch", 12, follower),
        "ListOffsets": (
            "ListOffsets",
            5,
            {"replica_id": -1, "isolation_level": 0} | offsets,
        ),
        "OffsetForLeaderEpoch": (
            "OffsetForLeaderEpoch",
            4,
            {"replica_id": -1, "topics": [{"topic": names.topic, "partitions": [epoch]}]},
        ),
        "DescribeProducers": (
            "DescribeProducers",
            0,
            {"topics": [{"name": names.topic, "partition_indexes": [0]}]},
        ),
    }


@secured_case
def permission_to_read(harness: CaseHarness) -> Any:
    return _seen(harness, _consumer)


def _groups(names: _Names) -> dict[str, _Request]:
    group = {"group_id": names.group}
    member = group | {"generation_id": 1, "member_id": "nobody", "group_instance_id": None}
    offset = {"committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
    commit = group | {
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [
            {"name": name, "partitions": _partition(**offset)} for name in (names.topic, names.gone)
        ],
    }
    join = group | {
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 6_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
        "reason": None,
    }
    sync = member | {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}
    leaving = {"member_id": "nobody", "group_instance_id": None, "reason": None}
    fetched = [{"name": names.topic, "partition_indexes": [0]}]
    two_groups = [
        {"group_id": names.group, "topics": fetched},
        {"group_id": names.group, "topics": None},
    ]
    return {
        "FindCoordinator": (
            "FindCoordinator",
            4,
            {"key_type": 0, "coordinator_keys": [names.group]},
        ),
        "FindCoordinator v2": ("FindCoordinator", 2, {"key_type": 0, "key": names.group}),
        "JoinGroup": ("JoinGroup", 9, join),
        "SyncGroup": ("SyncGroup", 5, sync),
        "Heartbeat": ("Heartbeat", 4, member),
        "LeaveGroup": ("LeaveGroup", 5, group | {"members": [leaving]}),
        "LeaveGroup v2": ("LeaveGroup", 2, group | {"member_id": "nobody"}),
        "OffsetCommit": ("OffsetCommit", 8, commit),
        "OffsetFetch": (
            "OffsetFetch",
            8,
            {"groups": two_groups, "require_stable": False},
        ),
        "OffsetFetch v7": (
            "OffsetFetch",
            7,
            group | {"topics": fetched, "require_stable": False},
        ),
        "OffsetFetch v7 of all": (
            "OffsetFetch",
            7,
            group | {"topics": None, "require_stable": False},
        ),
        "OffsetFetch v1": ("OffsetFetch", 1, group | {"topics": fetched}),
        "ConsumerGroupHeartbeat": (
            "ConsumerGroupHeartbeat",
            1,
            group
            | {
                "member_id": "nobody",
                "member_epoch": 5,
                "instance_id": None,
                "rack_id": None,
                "rebalance_timeout_ms": -1,
                "subscribed_topic_names": [names.topic],
                "subscribed_topic_regex": None,
                "server_assignor": None,
                "topic_partitions": None,
            },
        ),
        "ConsumerGroupDescribe": (
            "ConsumerGroupDescribe",
            1,
            {"group_ids": [names.group], "include_authorized_operations": True},
        ),
        "DescribeGroups": (
            "DescribeGroups",
            5,
            {"groups": [names.group], "include_authorized_operations": True},
        ),
    }


@secured_case
def permission_for_groups(harness: CaseHarness) -> Any:
    return _seen(harness, _groups)


def _producer(names: _Names) -> dict[str, _Request]:
    produce = produce_fields(names.topic, [batch(b"value")])
    unknown = produce_fields(names.gone, [batch(b"value")])
    in_transaction = changed(batch(b"value", producer=(5, 0, 0)), attributes=TRANSACTIONAL)
    transactional = produce_fields(names.topic, [in_transaction])
    who = {
        "transactional_id": names.transaction,
        "producer_id": 5_000_000,
        "producer_epoch": 0,
    }
    topics = [{"name": names.topic, "partitions": [0]}, {"name": names.gone, "partitions": [0]}]
    old = {f"v3_and_below_{key}": value for key, value in who.items()}
    offset = {"committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
    marker = {
        "producer_id": 5_000_000,
        "producer_epoch": 0,
        "transaction_result": True,
        "coordinator_epoch": 0,
        "topics": [],
    }
    return {
        "Produce": ("Produce", 9, produce),
        "Produce to an unknown topic": ("Produce", 9, unknown),
        "Produce in a transaction": (
            "Produce",
            9,
            transactional | {"transactional_id": names.transaction},
        ),
        "FindCoordinator": (
            "FindCoordinator",
            4,
            {"key_type": 1, "coordinator_keys": [names.transaction]},
        ),
        "InitProducerId": (
            "InitProducerId",
            4,
            _INIT | {"transactional_id": names.transaction, "producer_epoch": 3},
        ),
        "InitProducerId without id": ("InitProducerId", 4, _INIT),
        "AddPartitionsToTxn": (
            "AddPartitionsToTxn",
            3,
            old | {"v3_and_below_topics": topics},
        ),
        "AddPartitionsToTxn of internal topics": (
            "AddPartitionsToTxn",
            3,
            old | {"v3_and_below_topics": [{"name": "__consumer_offsets", "partitions": [0]}]},
        ),
        "AddPartitionsToTxn v4": (
            "AddPartitionsToTxn",
            4,
            {"transactions": [who | {"verify_only": True, "topics": topics}]},
        ),
        "AddOffsetsToTxn": ("AddOffsetsToTxn", 3, who | {"group_id": names.group}),
        "EndTxn": ("EndTxn", 3, who | {"committed": True}),
        "TxnOffsetCommit": (
            "TxnOffsetCommit",
            3,
            who
            | {
                "group_id": names.group,
                "generation_id": -1,
                "member_id": "",
                "group_instance_id": None,
                "topics": [{"name": names.gone, "partitions": _partition(**offset)}],
            },
        ),
        "WriteTxnMarkers": ("WriteTxnMarkers", 1, {"markers": [marker]}),
        "DescribeTransactions": (
            "DescribeTransactions",
            0,
            {"transactional_ids": [names.transaction]},
        ),
    }


@secured_case
def permission_to_write(harness: CaseHarness) -> Any:
    return _seen(harness, _producer)


def _administration(names: _Names) -> dict[str, _Request]:
    timeout = {"timeout_ms": 10_000}
    created = {"assignments": [], "configs": [], "num_partitions": 1, "replication_factor": 1}
    name = {"name": names.topic}
    assigned = name | {"partitions": _partition(replicas=None)}
    acl = {
        "principal_filter": "User:nobody",
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
    }
    kinds = {"topic": (2, names.topic), "broker": (4, "0"), "group": (32, names.group)}

    def configs(kind: str, **fields: Any) -> list[dict[str, Any]]:
        number, resource = kinds[kind]
        return [{"resource_type": number, "resource_name": resource, **fields}]

    requests: dict[str, _Request] = {}
    for kind in kinds:
        described = configs(kind, configuration_keys=None)
        altered = configs(kind, configs=[])
        flags = {"include_synonyms": False, "include_documentation": False}
        requests |= {
            f"DescribeConfigs of a {kind}": (
                "DescribeConfigs",
                4,
                {"resources": described, **flags},
            ),
            f"IncrementalAlterConfigs of a {kind}": (
                "IncrementalAlterConfigs",
                1,
                {"resources": altered, "validate_only": True},
            ),
            f"AlterConfigs of a {kind}": (
                "AlterConfigs",
                2,
                {"resources": altered, "validate_only": True},
            ),
        }
    return requests | {
        "CreateTopics": (
            "CreateTopics",
            5,
            {"topics": [created | {"name": names.gone}], "validate_only": True, **timeout},
        ),
        "CreatePartitions": (
            "CreatePartitions",
            3,
            {
                "topics": [name | {"count": 2, "assignments": None}],
                "validate_only": True,
                **timeout,
            },
        ),
        "DeleteTopics": ("DeleteTopics", 5, {"topic_names": [names.gone], **timeout}),
        "OffsetDelete": (
            "OffsetDelete",
            0,
            {
                "group_id": names.group,
                "topics": [{"name": names.gone, "partitions": _partition()}],
            },
        ),
        "DeleteGroups": ("DeleteGroups", 2, {"groups_names": [names.group]}),
        "DeleteRecords": (
            "DeleteRecords",
            2,
            {"topics": [name | {"partitions": _partition(offset=0)}], **timeout},
        ),
        "ElectLeaders": (
            "ElectLeaders",
            2,
            {
                "election_type": 0,
                "topic_partitions": [{"topic": names.topic, "partitions": [0]}],
                **timeout,
            },
        ),
        "AlterPartitionReassignments": (
            "AlterPartitionReassignments",
            0,
            {"topics": [assigned], **timeout},
        ),
        "ListPartitionReassignments": (
            "ListPartitionReassignments",
            0,
            {"topics": None, **timeout},
        ),
        "DescribeLogDirs": ("DescribeLogDirs", 4, {"topics": []}),
        "DescribeClientQuotas": (
            "DescribeClientQuotas",
            1,
            {"components": [], "strict": True},
        ),
        "AlterClientQuotas": ("AlterClientQuotas", 1, {"entries": [], "validate_only": True}),
        "DescribeUserScramCredentials": (
            "DescribeUserScramCredentials",
            0,
            {"users": [{"name": names.group}]},
        ),
        "AlterUserScramCredentials": (
            "AlterUserScramCredentials",
            0,
            {"deletions": [{"name": names.group, "mechanism": 1}], "upsertions": []},
        ),
        "DescribeQuorum": (
            "DescribeQuorum",
            0,
            {
                "topics": [
                    {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
                ]
            },
        ),
        "ListConfigResources": ("ListConfigResources", 1, {"resource_types": [16]}),
        "DescribeAcls": ("DescribeAcls", 3, acl),
        "DeleteAcls": ("DeleteAcls", 3, {"filters": [acl]}),
        "CreateAcls": (
            "CreateAcls",
            3,
            {
                "creations": [
                    {
                        "resource_type": _TOPIC,
                        "resource_name": "",
                        "resource_pattern_type": _LITERAL,
                        "principal": "User:nobody",
                        "host": "*",
                        "operation": 3,
                        "permission_type": _ALLOW,
                    }
                ]
            },
        ),
        "ApiVersions": ("ApiVersions", 0, {}),
    }


@secured_case
def permission_to_administer(harness: CaseHarness) -> Any:
    return _seen(harness, _administration)
