"""Clients' quotas that were changed by AlterClientQuotas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.client_quotas import (
    ClientLimit,
    client_limit,
    quota_entity,
)
from purgatory_broker.request_context import ANONYMOUS
from tests.broker import apis
from tests.broker.log.batches import batch
from tests.broker.replication.cluster_harness import ClusterHarness, handle_request, run_scenario

DATA = batch(b"x" * 20_000)
KEY = "producer_byte_rate"


async def alter(
    harness: ClusterHarness, names: dict[str, str | None], value: float | None, key: str = KEY
) -> ErrorCode:
    """Change a quota, and return the error."""
    entity = [{"entity_type": kind, "entity_name": name} for kind, name in names.items()]
    change = {"key": key, "value": value or 0.0, "remove": value is None}
    reply, _ = handle_request(
        harness,
        0,
        apis.ALTER_CLIENT_QUOTAS,
        1,
        entries=[{"entity": entity, "ops": [change]}],
        validate_only=False,
    )
    return ErrorCode((await reply.get()).entries[0].error_code)


async def described(harness: ClusterHarness, node: int = 0) -> list[Any]:
    """Return the entities and values of all quotas."""
    reply, _ = handle_request(
        harness, node, apis.DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False
    )
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in each.values},
        )
        for each in (await reply.get()).entries
    ]


def produce(harness: ClusterHarness, client_id: str, user: str = ANONYMOUS) -> int:
    """Produce 20 kB, and return the throttle time in milliseconds."""
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": DATA}]}]
    fields = {"acks": 1, "timeout_ms": 1_000, "topic_data": topics, "transactional_id": None}
    _, context = handle_request(
        harness, 0, apis.PRODUCE, 9, client_id=client_id, user=user, **fields
    )
    return context.throttle_ms


def fetch(harness: ClusterHarness, client_id: str, user: str = ANONYMOUS) -> int:
    """Fetch everything, and return the throttle time in milliseconds."""
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}]
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 2**20}
    fields |= {"replica_id": -1, "isolation_level": 0}
    fields["topics"] = [{"topic": "orders", "partitions": partitions}]
    _, context = handle_request(harness, 0, apis.FETCH, 6, client_id=client_id, user=user, **fields)
    return context.throttle_ms


def test_clients_are_throttled_by_their_quotas() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        assert produce(harness, "a") == 0
        assert await alter(harness, {"client-id": "a"}, 1_000.0) is ErrorCode.NONE
        assert produce(harness, "a") == round((len(DATA) - 10_000) / 1_000 * 1_000)
        assert produce(harness, "b") == 0
        assert await alter(harness, {"client-id": "a"}, None) is ErrorCode.NONE
        assert (produce(harness, "a"), await described(harness)) == (0, [])
        assert await alter(harness, {"client-id": None}, 1_000.0, "consumer_byte_rate") == 0
        await harness.settle()  # The followers have the records, so consumers see them.
        assert fetch(harness, "c") == 0, "Kafka, too, answers the fetch that exceeds the quota"
        assert fetch(harness, "c") > 0

    run_scenario(scenario)


def test_quota_replaces_the_setting() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        assert produce(harness, "a") > 0
        assert await alter(harness, {"client-id": "b"}, 1e9) is ErrorCode.NONE
        assert produce(harness, "b") == 0

    run_scenario(scenario, producer_byte_rate=1_000.0)


def test_clients_of_a_user_share_its_quota() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        assert await alter(harness, {"user": "alice"}, 1.0) is ErrorCode.NONE
        assert produce(harness, "a") == 0
        assert await alter(harness, {"user": None}, 3_000.0) is ErrorCode.NONE
        assert produce(harness, "a") == 0
        assert produce(harness, "b") > 0
        assert produce(harness, "b", "bob") == 0, "another user, with a share of its own"
        assert produce(harness, "c", "bob") > 0
        assert produce(harness, "a", "alice") > 3_000_000
        assert await alter(harness, {"user": "bob"}, 1.0, "consumer_byte_rate") is ErrorCode.NONE
        await harness.settle()
        assert fetch(harness, "a", "bob") == 0, "Kafka, too, answers the fetch that exceeds it"
        assert fetch(harness, "a", "bob") > 0
        assert fetch(harness, "a", "alice") == fetch(harness, "a") == 0

    run_scenario(scenario)


#: Entities by precedence, and who shares their quotas.
PRECEDENCE: list[tuple[dict[str, str | None], tuple[str, str]]] = [
    ({"user": "alice", "client-id": "a"}, ("alice", "a")),
    ({"user": "alice", "client-id": None}, ("alice", "a")),
    ({"user": "alice"}, ("alice", "")),
    ({"user": None, "client-id": "a"}, ("alice", "a")),
    ({"user": None, "client-id": None}, ("alice", "a")),
    ({"user": None}, ("alice", "")),
    ({"client-id": "a"}, ("", "a")),
    ({"client-id": None}, ("", "a")),
]


@pytest.mark.parametrize("position", range(len(PRECEDENCE)))
def test_most_specific_quota_applies(position: int) -> None:
    quotas = {
        quota_entity(names): {KEY: float(index)}
        for index, (names, _) in enumerate(PRECEDENCE)
        if index >= position
    }
    expected = ClientLimit(float(position), PRECEDENCE[position][1])
    assert client_limit(quotas, KEY, "alice", "a") == expected
    assert client_limit(quotas, "consumer_byte_rate", "alice", "a") is None


def test_quotas_are_stored(tmp_path: Path) -> None:
    expected = [({"client-id": None, "user": "alice"}, {KEY: 5.0})]

    async def before(harness: ClusterHarness) -> None:
        names: dict[str, str | None] = {"user": "alice", "client-id": None}
        assert await alter(harness, names, 5.0) is ErrorCode.NONE

    async def after(harness: ClusterHarness) -> None:
        assert await described(harness) == expected
        harness.cluster.partition_node(2)
        assert await alter(harness, {"client-id": "a"}, 5.0) is ErrorCode.NONE
        assert await described(harness, 2) == expected, "what it knew"
        harness.cluster.heal_node(2)
        assert len(await described(harness, 2)) == 2
        await harness.cluster.reset()
        assert await described(harness) == []
        await harness.create_topic()

    run_scenario(before, data_dir=tmp_path)
    run_scenario(after, data_dir=tmp_path)
