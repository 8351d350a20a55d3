"""Requests that ask for too much.

What they cost is bounded, and they get an answer or end their connection.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from request_purgatory.broker import ClusterProcess
from request_purgatory.broker.api import partition_limits
from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.apis import Api
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.limits import MAX_ELEMENTS
from tests.broker.hostile.attacker import Attacker
from tests.broker.hostile.client import is_served
from tests.broker.hostile.conftest import Attack
from tests.broker.hostile.corpus import request
from tests.broker.hostile.memory import most_resident_kb
from tests.broker.hostile.requests import GROUP, TOPIC, sized
from tests.broker.raw_requests import records

#: What a cluster's process may come to have in memory by all of them, one after the other: the 40
#: MB that it starts with, the 100 MiB that `wire.limits` grants to one request and its answer, and
#: what the allocator does not give back.
MOST_RESIDENT_KB = 200_000
#: Of processor time, as a busy machine is no finding. Generous: none takes three seconds.
MOST_SECONDS = 15.0
_MANY = MAX_ELEMENTS - 10


def _leader(cluster: AsyncCluster, partition: int = 0) -> int:
    return cluster.controller.topics[TOPIC].partitions[partition].leader


def ask(cluster: AsyncCluster, api: Api, version: int, /, **fields: Any) -> Any:
    """The answer to a request that is handled at once, or None if it ended the connection."""
    raw = sized(request(api, version, **fields))
    attacker = Attacker(cluster.nodes[_leader(cluster)])
    attacker.send(raw)
    answers = attacker.answers()
    is_ended = attacker.wire.is_ended
    attacker.end()
    assert len(answers) == (not is_ended), (api.name, len(answers), is_ended)
    if is_ended:
        return None
    flexible = api.is_flexible(version) and api is not apis.API_VERSIONS
    return api.response.decode(answers[0][5 if flexible else 4 :], version=version)


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


def _new(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    } | fields


def _committed(partition: int) -> dict[str, Any]:
    return {"partition_index": partition, "committed_offset": 1, "committed_metadata": ""}


_COMMIT = {
    "group_id": GROUP,
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "group_instance_id": None,
}
_UNWRITTEN = {"index": 0, "records": None}

Fields = Callable[[], dict[str, Any]]

#: Fields are made where they are used: they are tens of thousands of dicts, which the garbage
#: collector would walk over in every other test.
GREEDY: dict[str, tuple[Api, int, Fields]] = {
    "coordinators of many": (
        apis.FIND_COORDINATOR,
        4,
        lambda: {"key_type": 0, "coordinator_keys": ["k"] * _MANY},
    ),
    "one group many times": (apis.DESCRIBE_GROUPS, 0, lambda: {"groups": [GROUP] * _MANY}),
    "many groups": (
        apis.DESCRIBE_GROUPS,
        0,
        lambda: {"groups": [f"{each}" for each in range(_MANY)]},
    ),
    "many groups to be deleted": (
        apis.DELETE_GROUPS,
        0,
        lambda: {"groups_names": [f"{each}" for each in range(_MANY)]},
    ),
    "one topic's settings many times": (
        apis.DESCRIBE_CONFIGS,
        1,
        lambda: {
            "resources": [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}]
            * _MANY,
            "include_synonyms": True,
        },
    ),
    "settings of many topics that are not there": (
        apis.DESCRIBE_CONFIGS,
        1,
        lambda: {
            "resources": [
                {"resource_type": 2, "resource_name": f"{each}", "configuration_keys": None}
                for each in range(_MANY)
            ]
        },
    ),
    "one partition's offset many times": (
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
    "offsets of many topics that are not there": (
        apis.OFFSET_COMMIT,
        7,
        lambda: (
            _COMMIT
            | {
                "topics": [
                    {"name": f"{each}", "partitions": [_committed(0)]} for each in range(_MANY // 2)
                ]
            }
        ),
    ),
    "offsets of many partitions that are not there": (
        apis.OFFSET_COMMIT,
        7,
        lambda: (
            _COMMIT
            | {
                "topics": [
                    {"name": TOPIC, "partitions": [_committed(each) for each in range(_MANY)]}
                ]
            }
        ),
    ),
    "what one group has committed many times": (
        apis.OFFSET_FETCH,
        8,
        lambda: {"groups": [{"group_id": GROUP, "topics": None}] * _MANY, "require_stable": False},
    ),
    "many partitions of one group": (
        apis.OFFSET_FETCH,
        7,
        lambda: {
            "group_id": GROUP,
            "topics": [{"name": TOPIC, "partition_indexes": list(range(_MANY))}],
            "require_stable": False,
        },
    ),
    "many partitions that are not there": (
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
    "many topics that are not there": (
        apis.FETCH,
        11,
        lambda: _fetch(
            [
                {"topic": f"{each}", "partitions": [{"partition": 0, "fetch_offset": 0}]}
                for each in range(_MANY // 2)
            ]
        ),
    ),
    "one partition written many times": (
        apis.PRODUCE,
        8,
        lambda: {
            "acks": -1,
            "timeout_ms": 50,
            "topic_data": [{"name": TOPIC, "partition_data": [_UNWRITTEN] * _MANY}],
        },
    ),
    "nothing written to many": (
        apis.PRODUCE,
        8,
        lambda: {
            "acks": 1,
            "timeout_ms": 50,
            "topic_data": [
                {"name": f"{each}", "partition_data": [_UNWRITTEN]} for each in range(_MANY // 2)
            ],
        },
    ),
    "one partition's records deleted many times": (
        apis.DELETE_RECORDS,
        1,
        lambda: {
            "timeout_ms": 50,
            "topics": [
                {"name": TOPIC, "partitions": [{"partition_index": 0, "offset": -1}] * _MANY}
            ],
        },
    ),
    "topics with names that are none": (
        apis.CREATE_TOPICS,
        4,
        lambda: {
            "topics": [_new(f" {each}", num_partitions=0) for each in range(_MANY)],
            "timeout_ms": 0,
            "validate_only": False,
        },
    ),
    "many partitions for topics that are not there": (
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
    "many topics to be deleted": (
        apis.DELETE_TOPICS,
        5,
        lambda: {"topic_names": [f"{each}" for each in range(_MANY)], "timeout_ms": 0},
    ),
    "one setting appended to many times": (
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
    "leaving members that are none": (
        apis.LEAVE_GROUP,
        3,
        lambda: {
            "group_id": GROUP,
            "members": [
                {"member_id": f"{each}", "group_instance_id": None} for each in range(_MANY)
            ],
        },
    ),
    "more protocols than assignors": (
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


@pytest.mark.parametrize(("api", "version", "fields"), GREEDY.values(), ids=GREEDY)
def test_request_of_as_much_as_is_taken_is_answered_soon(
    attack: Attack, api: Api, version: int, fields: Fields
) -> None:
    """What takes longer with the square of what is asked for would take minutes."""

    async def scenario(cluster: AsyncCluster) -> None:
        raw = sized(request(api, version, **fields()))
        attacker = Attacker(cluster.nodes[_leader(cluster)])
        begin = time.thread_time()
        attacker.send(raw)
        await asyncio.sleep(1)
        seconds = time.thread_time() - begin
        assert attacker.wire.is_ended or len(attacker.answers()) == 1
        attacker.end()
        assert seconds < MOST_SECONDS, f"{seconds:.1f} s"
        await is_served(cluster)

    attack(scenario)


@pytest.mark.slow
def test_requests_of_as_much_as_is_taken_are_bounded_in_memory(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """All of them, in a process of their own."""
    with ClusterProcess(nodes=1) as process:
        process.create_topic(TOPIC, partitions=2)
        host, port = process.bootstrap.split(":")
        for api, version, fields in GREEDY.values():
            with socket.create_connection((host, int(port)), 60) as connection:
                connection.sendall(sized(request(api, version, **fields())))
                with connection.makefile("rb") as answers:
                    size = int.from_bytes(answers.read(4))
                    assert len(answers.read(size)) == size
        assert most_resident_kb(process) < MOST_RESIDENT_KB
    assert "ERROR" not in capfd.readouterr().err


def test_partitions_beyond_kafkas_limit_are_refused(attack: Attack) -> None:
    """At once: 10,000 in one request, all its topics together."""

    async def scenario(cluster: AsyncCluster) -> None:
        topics = [
            _new("one", num_partitions=6_000),
            _new("two", num_partitions=6_000),
            _new("three"),
        ]
        made = ask(cluster, apis.CREATE_TOPICS, 5, topics=topics, timeout_ms=0, validate_only=False)
        assert {each.error_code for each in made.topics} == {ErrorCode.POLICY_VIOLATION}
        assert {each.error_message for each in made.topics} == {
            "Excessively large number of partitions per request."
        }
        grown = {"name": TOPIC, "count": 2**31 - 1, "assignments": None}
        answer = ask(
            cluster, apis.CREATE_PARTITIONS, 2, topics=[grown], timeout_ms=0, validate_only=False
        )
        assert answer.results[0].error_code == ErrorCode.POLICY_VIOLATION
        assert len(cluster.controller.topics[TOPIC].partitions) == 2

    attack(scenario)


def test_clients_can_not_have_a_cluster_grow_without_end(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By CreateTopics, CreatePartitions or Metadata; code can."""
    monkeypatch.setattr(partition_limits, "MAX_PARTITIONS", 20)

    async def scenario(cluster: AsyncCluster) -> None:
        topics = [_new("fits", num_partitions=10), _new("does-not", num_partitions=10)]
        made = ask(cluster, apis.CREATE_TOPICS, 5, topics=topics, timeout_ms=0, validate_only=False)
        assert [each.error_code for each in made.topics] == [0, ErrorCode.POLICY_VIOLATION]
        grown = {"name": TOPIC, "count": 10, "assignments": None}
        answer = ask(
            cluster, apis.CREATE_PARTITIONS, 2, topics=[grown], timeout_ms=0, validate_only=False
        )
        assert answer.results[0].error_code == ErrorCode.POLICY_VIOLATION
        names = [{"name": f"auto-{each}"} for each in range(10)]
        looked_up = ask(cluster, apis.METADATA, 8, topics=names, allow_auto_topic_creation=True)
        codes = [each.error_code for each in looked_up.topics]
        assert codes.count(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 4
        assert codes.count(ErrorCode.POLICY_VIOLATION) == 6
        cluster.create_topic("by-code", partitions=30)

    attack(scenario)


def test_metadata_request_makes_so_many_topics_at_a_time(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others when it comes again, as clients do."""
    monkeypatch.setattr("request_purgatory.broker.api.metadata.MAX_TOPICS_PER_METADATA", 5)

    async def scenario(cluster: AsyncCluster) -> None:
        names = [{"name": f"auto-{each}"} for each in range(8)]
        for made in (5, 8):
            answer = ask(cluster, apis.METADATA, 8, topics=names, allow_auto_topic_creation=True)
            assert len(answer.topics) == 8
            assert sum(name.startswith("auto-") for name in cluster.controller.topics) == made

    attack(scenario)


def test_setting_is_no_longer_than_every_version_can_tell(attack: Attack) -> None:
    """Older clients could not be told it, and would be cut off for asking."""

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
        told = ask(cluster, apis.DESCRIBE_CONFIGS, 1, resources=[asked], include_synonyms=False)
        value = next(
            each.value for each in told.results[0].configs if each.name.startswith("leader.")
        )
        assert len(value) == 3 * 9_000 + 2

    attack(scenario)


def test_partition_that_is_named_twice_is_written_once(attack: Attack) -> None:
    """As in Kafka, whose handlers keep them in maps: what is said last is done, and told once."""

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

    attack(scenario, nodes=1)


@pytest.mark.parametrize("max_bytes", [-(2**31), -1, 0, 1, 2**31 - 1])
@pytest.mark.parametrize("offset", [-(2**63), -1, 0, 1, 2**63 - 1])
def test_fetch_with_extreme_numbers_is_answered(
    attack: Attack, max_bytes: int, offset: int
) -> None:
    """With records, nothing or an error, for consumers and for who says to be a follower."""

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

    attack(scenario)
