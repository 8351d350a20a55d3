"""Requests that ask for too much.

Their cost is limited; they get a response or close their connection.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from purgatory_broker import ClusterProcess
from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.reader import MAX_ELEMENTS
from purgatory_broker.api import topics
from purgatory_broker.api.registry import find_api
from purgatory_broker.cluster.async_cluster import AsyncCluster
from tests.broker import apis
from tests.broker.hostile.client import check_clients_are_served
from tests.broker.hostile.conftest import RunScenario
from tests.broker.hostile.corpus import request
from tests.broker.hostile.process_memory import peak_resident_kb
from tests.broker.hostile.raw_connection import RawConnection
from tests.broker.hostile.sample_requests import GROUP, TOPIC, with_size
from tests.broker.raw_requests import records
from tests.broker.wire.schemas import response_class

#: The limit on a process's memory after all large requests, one after the other: 40 MB at the
#: start, 100 MiB for one request and its response (see `_wire.reader`), and what the allocator
#: keeps.
MAX_RESIDENT_KB = 200_000
#: The limit on a request's processor time, not wall time, since the machine may be busy. Every
#: request takes less than three seconds.
MAX_SECONDS = 15.0
_MANY = MAX_ELEMENTS - 10


def _leader(cluster: AsyncCluster, partition: int = 0) -> int:
    return cluster.controller.topics[TOPIC].partitions[partition].leader


def ask(cluster: AsyncCluster, api: Api, version: int, /, **fields: Any) -> Any:
    """Send a request that is handled at once; return its response, or None if it is refused."""
    raw = with_size(request(api, version, **fields))
    connection = RawConnection(cluster.nodes[_leader(cluster)])
    connection.send(raw)
    answers = connection.responses()
    is_closed = connection.transport.is_closed
    connection.end()
    assert len(answers) == (not is_closed), (api.name, len(answers), is_closed)
    if is_closed:
        return None
    flexible = api.is_flexible(version) and api.has_tagged_header
    return response_class(api).decode(answers[0][5 if flexible else 4 :], version=version)


def _fetch(topics: list[Any]) -> dict[str, Any]:
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


def _topic(name: str, **fields: Any) -> dict[str, Any]:
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
        lambda: _fetch(
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
        lambda: _fetch(
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
            "topics": [_topic(f" {each}", num_partitions=0) for each in range(_MANY)],
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


@pytest.mark.slow
@pytest.mark.parametrize(("api", "version", "fields"), LARGE_REQUESTS.values(), ids=LARGE_REQUESTS)
def test_large_request_is_handled_soon(
    run_scenario: RunScenario, api: Api, version: int, fields: Fields
) -> None:
    """A handler of quadratic time would take minutes."""

    async def scenario(cluster: AsyncCluster) -> None:
        raw = with_size(request(api, version, **fields()))
        connection = RawConnection(cluster.nodes[_leader(cluster)])
        begin = time.thread_time()
        connection.send(raw)
        await asyncio.sleep(1)
        seconds = time.thread_time() - begin
        assert connection.transport.is_closed or len(connection.responses()) == 1
        connection.end()
        assert seconds < MAX_SECONDS, f"{seconds:.1f} s"
        await check_clients_are_served(cluster)

    run_scenario(scenario)


@pytest.mark.slow
def test_large_requests_stay_below_the_memory_limit(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with ClusterProcess(nodes=1) as process:
        process.create_topic(TOPIC, partitions=2)
        host, port = process.bootstrap_servers.split(":")
        for api, version, fields in LARGE_REQUESTS.values():
            with socket.create_connection((host, int(port)), 60) as connection:
                connection.sendall(with_size(request(api, version, **fields())))
                with connection.makefile("rb") as answers:
                    size = int.from_bytes(answers.read(4))
                    assert len(answers.read(size)) == size
        assert peak_resident_kb(process) < MAX_RESIDENT_KB
    assert "ERROR" not in capfd.readouterr().err


def test_partitions_beyond_kafkas_limit_are_refused(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        topics = [
            _topic("one", num_partitions=6_000),
            _topic("two", num_partitions=6_000),
            _topic("three"),
        ]
        created = ask(
            cluster, apis.CREATE_TOPICS, 5, topics=topics, timeout_ms=0, validate_only=False
        )
        assert {each.error_code for each in created.topics} == {ErrorCode.POLICY_VIOLATION}
        assert {each.error_message for each in created.topics} == {
            "Excessively large number of partitions per request."
        }
        grown = {"name": TOPIC, "count": 2**31 - 1, "assignments": None}
        answer = ask(
            cluster, apis.CREATE_PARTITIONS, 2, topics=[grown], timeout_ms=0, validate_only=False
        )
        assert answer.results[0].error_code == ErrorCode.POLICY_VIOLATION
        assert len(cluster.controller.topics[TOPIC].partitions) == 2

    run_scenario(scenario)


def test_clients_can_not_create_unlimited_partitions(
    run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MAX_PARTITIONS", 20)

    async def scenario(cluster: AsyncCluster) -> None:
        topics = [_topic("fits", num_partitions=10), _topic("does-not", num_partitions=10)]
        created = ask(
            cluster, apis.CREATE_TOPICS, 5, topics=topics, timeout_ms=0, validate_only=False
        )
        assert [each.error_code for each in created.topics] == [0, ErrorCode.POLICY_VIOLATION]
        grown = {"name": TOPIC, "count": 10, "assignments": None}
        answer = ask(
            cluster, apis.CREATE_PARTITIONS, 2, topics=[grown], timeout_ms=0, validate_only=False
        )
        assert answer.results[0].error_code == ErrorCode.POLICY_VIOLATION
        names = [{"name": f"auto-{each}"} for each in range(10)]
        found = ask(cluster, apis.METADATA, 8, topics=names, allow_auto_topic_creation=True)
        codes = [each.error_code for each in found.topics]
        assert codes.count(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 4
        assert codes.count(ErrorCode.POLICY_VIOLATION) == 6
        cluster.create_topic("by-code", partitions=30)

    run_scenario(scenario)


def test_metadata_request_creates_a_limited_number_of_topics(
    run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purgatory_broker.api.metadata.MAX_TOPICS_PER_METADATA", 5)

    async def scenario(cluster: AsyncCluster) -> None:
        names = [{"name": f"auto-{each}"} for each in range(8)]
        for made in (5, 8):
            answer = ask(cluster, apis.METADATA, 8, topics=names, allow_auto_topic_creation=True)
            assert len(answer.topics) == 8
            assert sum(name.startswith("auto-") for name in cluster.controller.topics) == made

    run_scenario(scenario)


def test_config_is_not_longer_than_every_version_can_encode(run_scenario: RunScenario) -> None:
    """Older clients could not describe it, and would be disconnected."""

    async def scenario(cluster: AsyncCluster) -> None:
        for step in range(10):
            change = {
                "name": "leader.replication.throttled.replicas",
                "config_operation": 2,
                "value": f"{step}" * 9_000,
            }
            resource = {"resource_type": 2, "resource_name": TOPIC, "configs": [change]}
            answer = ask(
                cluster,
                apis.INCREMENTAL_ALTER_CONFIGS,
                1,
                resources=[resource],
                validate_only=False,
            )
            assert answer.responses[0].error_code == (0 if step < 3 else ErrorCode.INVALID_CONFIG)
        asked = {"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}
        described = ask(
            cluster, apis.DESCRIBE_CONFIGS, 1, resources=[asked], include_synonyms=False
        )
        value = next(
            each.value for each in described.results[0].configs if each.name.startswith("leader.")
        )
        assert len(value) == 3 * 9_000 + 2

    run_scenario(scenario)


def test_last_entry_of_a_repeated_partition_is_appended(run_scenario: RunScenario) -> None:
    """As in Kafka, whose handlers keep partitions in maps."""

    async def scenario(cluster: AsyncCluster) -> None:
        partition = next(each for each in range(2) if _leader(cluster, each) == _leader(cluster))
        data = [{"index": partition, "records": records(text)} for text in (b"first", b"second")]
        answer = ask(
            cluster,
            apis.PRODUCE,
            8,
            acks=1,
            timeout_ms=50,
            topic_data=[{"name": TOPIC, "partition_data": data}],
        )
        assert [each.error_code for each in answer.responses[0].partition_responses] == [0]
        fetched = ask(
            cluster,
            apis.FETCH,
            11,
            **_fetch(
                [
                    {
                        "topic": TOPIC,
                        "partitions": [
                            {
                                "partition": partition,
                                "fetch_offset": 0,
                                "partition_max_bytes": 9_999,
                            }
                        ],
                    }
                ]
            ),
        )
        found = fetched.responses[0].partitions[0].records
        assert b"second" in found
        assert b"first" not in found

    run_scenario(scenario, nodes=1)


@pytest.mark.parametrize("max_bytes", [-(2**31), -1, 0, 1, 2**31 - 1])
@pytest.mark.parametrize("offset", [-(2**63), -1, 0, 1, 2**63 - 1])
def test_fetch_with_extreme_numbers_is_answered(
    run_scenario: RunScenario, max_bytes: int, offset: int
) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": records(b"one")}]}]
        assert ask(cluster, apis.PRODUCE, 8, acks=1, timeout_ms=50, topic_data=data) is not None
        for replica in (-1, 0, 1, 2**31 - 1):
            wanted = {
                "partition": 0,
                "fetch_offset": offset,
                "partition_max_bytes": max_bytes,
                "log_start_offset": offset,
            }
            fields = _fetch([{"topic": TOPIC, "partitions": [wanted]}]) | {
                "replica_id": replica,
                "max_bytes": max_bytes,
            }
            assert ask(cluster, apis.FETCH, 11, **fields) is not None

    run_scenario(scenario)
