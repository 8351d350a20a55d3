"""Requests that ask for too much.

Their cost is limited; they get a response or close their connection.
"""

from __future__ import annotations

from typing import Any

import pytest

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api import topics
from purgatory_broker.cluster.async_cluster import AsyncCluster
from tests.broker import apis
from tests.broker.hostile.conftest import RunScenario
from tests.broker.hostile.corpus import request
from tests.broker.hostile.large_requests import large_fetch, topic_fields
from tests.broker.hostile.raw_connection import RawConnection
from tests.broker.hostile.sample_requests import TOPIC, leader_of, with_size
from tests.broker.raw_requests import records
from tests.broker.wire.schemas import response_class


def ask(cluster: AsyncCluster, api: Api, version: int, /, **fields: Any) -> Any:
    """Send a request that is handled at once; return its response, or None if it is refused."""
    raw = with_size(request(api, version, **fields))
    connection = RawConnection(cluster.nodes[leader_of(cluster)])
    connection.send(raw)
    answers = connection.responses()
    is_closed = connection.transport.is_closed
    connection.end()
    assert len(answers) == (not is_closed), (api.name, len(answers), is_closed)
    if is_closed:
        return None
    flexible = api.is_flexible(version) and api.has_tagged_header
    return response_class(api).decode(answers[0][5 if flexible else 4 :], version=version)


def test_partitions_beyond_kafkas_limit_are_refused(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        topics = [
            topic_fields("one", num_partitions=6_000),
            topic_fields("two", num_partitions=6_000),
            topic_fields("three"),
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
        topics = [
            topic_fields("fits", num_partitions=10),
            topic_fields("does-not", num_partitions=10),
        ]
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
        partition = next(
            each for each in range(2) if leader_of(cluster, each) == leader_of(cluster)
        )
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
            **large_fetch(
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
            fields = large_fetch([{"topic": TOPIC, "partitions": [wanted]}]) | {
                "replica_id": replica,
                "max_bytes": max_bytes,
            }
            assert ask(cluster, apis.FETCH, 11, **fields) is not None

    run_scenario(scenario)
