"""Requests with as many elements as their size allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.reader import MAX_ELEMENTS
from purgatory_broker.api.registry import find_api
from tests.broker import apis
from tests.broker.hostile.sample_requests import GROUP, TOPIC

_MANY = MAX_ELEMENTS - 10


def large_fetch(topics: list[Any]) -> dict[str, Any]:
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 2**31 - 1,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": 0,
        "topics": topics,
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def topic_fields(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    } | fields


def _marker(producer_id: int, partitions: list[int]) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": TOPIC, "partition_indexes": partitions}],
        "coordinator_epoch": 0,
    }


def _offset(partition: int) -> dict[str, Any]:
    return {"partition_index": partition, "committed_offset": 1, "committed_metadata": ""}


_COMMIT = {
    "group_id": GROUP,
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "group_instance_id": None,
}
_EMPTY_PARTITION = {"index": 0, "records": None}

Fields = Callable[[], dict[str, Any]]

#: The fields are built in the tests: they are tens of thousands of dicts, which would slow down the
#: garbage collector in every other test.
LARGE_REQUESTS: dict[str, tuple[Api, int, Fields]] = {
    "FindCoordinator of many groups": (
        apis.FIND_COORDINATOR,
        4,
        lambda: {"key_type": 0, "coordinator_keys": ["k"] * _MANY},
    ),
    "DescribeGroups of one group many times": (
        apis.DESCRIBE_GROUPS,
        0,
        lambda: {"groups": [GROUP] * _MANY},
    ),
    "DescribeGroups of many groups": (
        apis.DESCRIBE_GROUPS,
        0,
        lambda: {"groups": [f"{each}" for each in range(_MANY)]},
    ),
    "DeleteGroups of many groups": (
        apis.DELETE_GROUPS,
        0,
        lambda: {"groups_names": [f"{each}" for each in range(_MANY)]},
    ),
    "DescribeConfigs of one topic many times": (
        apis.DESCRIBE_CONFIGS,
        1,
        lambda: {
            "resources": [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}]
            * _MANY,
            "include_synonyms": True,
        },
    ),
    "DescribeConfigs of many missing topics": (
        apis.DESCRIBE_CONFIGS,
        1,
        lambda: {
            "resources": [
                {"resource_type": 2, "resource_name": f"{each}", "configuration_keys": None}
                for each in range(_MANY)
            ]
        },
    ),
    "ListOffsets of one partition many times": (
        apis.LIST_OFFSETS,
        1,
        lambda: {
            "replica_id": -1,
            "topics": [
                {"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": each}]}
                for each in range(_MANY // 2)
            ],
        },
    ),
    "OffsetCommit of many missing topics": (
        apis.OFFSET_COMMIT,
        7,
        lambda: (
            _COMMIT
            | {
                "topics": [
                    {"name": f"{each}", "partitions": [_offset(0)]} for each in range(_MANY // 2)
                ]
            }
        ),
    ),
    "OffsetCommit of many missing partitions": (
        apis.OFFSET_COMMIT,
        7,
        lambda: (
            _COMMIT
            | {"topics": [{"name": TOPIC, "partitions": [_offset(each) for each in range(_MANY)]}]}
        ),
    ),
    "OffsetFetch of one group many times": (
        apis.OFFSET_FETCH,
        8,
        lambda: {"groups": [{"group_id": GROUP, "topics": None}] * _MANY, "require_stable": False},
    ),
    "OffsetFetch of many partitions": (
        apis.OFFSET_FETCH,
        7,
        lambda: {
            "group_id": GROUP,
            "topics": [{"name": TOPIC, "partition_indexes": list(range(_MANY))}],
            "require_stable": False,
        },
    ),
    "Fetch of many missing partitions": (
        apis.FETCH,
        11,
        lambda: large_fetch(
            [
                {
                    "topic": TOPIC,
                    "partitions": [{"partition": each, "fetch_offset": 0} for each in range(_MANY)],
                }
            ]
        ),
    ),
    "Fetch of many missing topics": (
        apis.FETCH,
        11,
        lambda: large_fetch(
            [
                {"topic": f"{each}", "partitions": [{"partition": 0, "fetch_offset": 0}]}
                for each in range(_MANY // 2)
            ]
        ),
    ),
    "Produce to one partition many times": (
        apis.PRODUCE,
        8,
        lambda: {
            "acks": -1,
            "timeout_ms": 50,
            "topic_data": [{"name": TOPIC, "partition_data": [_EMPTY_PARTITION] * _MANY}],
        },
    ),
    "Produce of no records to many topics": (
        apis.PRODUCE,
        8,
        lambda: {
            "acks": 1,
            "timeout_ms": 50,
            "topic_data": [
                {"name": f"{each}", "partition_data": [_EMPTY_PARTITION]}
                for each in range(_MANY // 2)
            ],
        },
    ),
    "DeleteRecords of one partition many times": (
        apis.DELETE_RECORDS,
        1,
        lambda: {
            "timeout_ms": 50,
            "topics": [
                {"name": TOPIC, "partitions": [{"partition_index": 0, "offset": -1}] * _MANY}
            ],
        },
    ),
    "DescribeProducers of many partitions of an invalid topic": (
        apis.DESCRIBE_PRODUCERS,
        0,
        lambda: {"topics": [{"name": " " * 32_000, "partition_indexes": list(range(_MANY))}]},
    ),
    "WriteTxnMarkers to many missing partitions": (
        find_api("WriteTxnMarkers"),
        1,
        lambda: {"markers": [_marker(7, list(range(9, _MANY)))]},
    ),
    "WriteTxnMarkers of one producer many times": (
        find_api("WriteTxnMarkers"),
        1,
        lambda: {"markers": [_marker(7, [0])] * (_MANY // 3)},
    ),
    "WriteTxnMarkers of many producers": (
        find_api("WriteTxnMarkers"),
        1,
        lambda: {"markers": [_marker(each, [0]) for each in range(_MANY // 3)]},
    ),
    "ElectLeaders of many partitions of a missing topic": (
        apis.ELECT_LEADERS,
        2,
        lambda: {
            "election_type": 0,
            "topic_partitions": [{"topic": "a" * 32_000, "partitions": list(range(_MANY))}],
            "timeout_ms": 50,
        },
    ),
    "CreateTopics with many invalid names": (
        apis.CREATE_TOPICS,
        4,
        lambda: {
            "topics": [topic_fields(f" {each}", num_partitions=0) for each in range(_MANY)],
            "timeout_ms": 0,
            "validate_only": False,
        },
    ),
    "CreatePartitions of many missing topics": (
        apis.CREATE_PARTITIONS,
        1,
        lambda: {
            "topics": [
                {"name": f"{each}", "count": 2**31 - 1, "assignments": None}
                for each in range(_MANY)
            ],
            "timeout_ms": 0,
            "validate_only": False,
        },
    ),
    "DeleteTopics of many topics": (
        apis.DELETE_TOPICS,
        5,
        lambda: {"topic_names": [f"{each}" for each in range(_MANY)], "timeout_ms": 0},
    ),
    "IncrementalAlterConfigs of one config many times": (
        apis.INCREMENTAL_ALTER_CONFIGS,
        0,
        lambda: {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": TOPIC,
                    "configs": [
                        {
                            "name": "leader.replication.throttled.replicas",
                            "config_operation": 2,
                            "value": ",".join(f"{each}" for each in range(number, number + 5_000)),
                        }
                        for number in range(0, 90_000, 1_000)
                    ],
                }
            ],
            "validate_only": False,
        },
    ),
    "LeaveGroup of many unknown members": (
        apis.LEAVE_GROUP,
        3,
        lambda: {
            "group_id": GROUP,
            "members": [
                {"member_id": f"{each}", "group_instance_id": None} for each in range(_MANY)
            ],
        },
    ),
    "JoinGroup with many protocols": (
        apis.JOIN_GROUP,
        5,
        lambda: {
            "group_id": "greedy",
            "session_timeout_ms": 6_000,
            "rebalance_timeout_ms": 6_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": f"{each}", "metadata": b""} for each in range(_MANY)],
        },
    ),
}
