"""The settings of groups and brokers, which clients can change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker import apis
from tests.broker.replication.cluster_harness import ClusterHarness, handle_request, run_scenario

BROKER, GROUP = 4, 32
SET, DELETE = 0, 1
SESSION = "consumer.session.timeout.ms"
RATE = "leader.replication.throttled.rate"


async def alter(
    harness: ClusterHarness,
    kind: int,
    name: str,
    *changes: tuple[int, str, str | None],
    node: int = 0,
) -> ErrorCode:
    """Change settings of a resource, and return the error."""
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for operation, key, value in changes
    ]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    reply, _ = handle_request(
        harness,
        node,
        apis.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=resources,
        validate_only=False,
    )
    return ErrorCode((await reply.get()).responses[0].error_code)


async def values(harness: ClusterHarness, kind: int, name: str, *keys: str) -> dict[str, Any]:
    """Return the value and the source of settings."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}
    reply, _ = handle_request(harness, 0, apis.DESCRIBE_CONFIGS, 4, resources=[resource])
    result = (await reply.get()).results[0]
    return {each.name: (each.value, each.config_source) for each in result.configs}


async def listed_groups(harness: ClusterHarness) -> list[str]:
    """Return the groups that ListConfigResources lists."""
    reply, _ = handle_request(harness, 0, apis.LIST_CONFIG_RESOURCES, 1, resource_types=[GROUP])
    return [each.resource_name for each in (await reply.get()).config_resources]


def test_settings_of_groups_and_brokers_are_stored(tmp_path: Path) -> None:
    async def before(harness: ClusterHarness) -> None:
        assert await alter(harness, GROUP, "readers", (SET, SESSION, "50000")) is ErrorCode.NONE
        assert await alter(harness, BROKER, "", (SET, RATE, "5")) is ErrorCode.NONE
        assert await alter(harness, BROKER, "0", (SET, RATE, "7")) is ErrorCode.NONE
        assert await alter(harness, BROKER, "0", (DELETE, RATE, None)) is ErrorCode.NONE

    async def after(harness: ClusterHarness) -> None:
        assert await values(harness, GROUP, "readers", SESSION) == {SESSION: ("50000", 8)}
        assert await values(harness, GROUP, "others", SESSION) == {SESSION: ("45000", 5)}
        assert await values(harness, BROKER, "", RATE) == {RATE: ("5", 3)}
        assert await values(harness, BROKER, "0", RATE) == {RATE: ("5", 3)}
        assert await listed_groups(harness) == ["readers"]
        await harness.cluster.reset()
        assert await listed_groups(harness) == []
        assert await values(harness, BROKER, "", RATE) == {}
        await harness.create_topic()

    run_scenario(before, data_dir=tmp_path)
    run_scenario(after, data_dir=tmp_path)


def test_other_settings_of_brokers_can_not_be_changed() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        for name in ("num.partitions", "num.io.threads", "no.such.setting"):
            refused = await alter(harness, BROKER, "0", (SET, name, "1"))
            assert refused is ErrorCode.INVALID_REQUEST
        both = await alter(harness, BROKER, "0", (SET, RATE, "1"), (SET, "num.partitions", "1"))
        assert both is ErrorCode.INVALID_REQUEST
        assert await values(harness, BROKER, "0", RATE) == {}

    run_scenario(scenario)


def test_resource_or_setting_named_twice_is_refused() -> None:
    """As in Kafka; nothing of it is changed."""

    async def scenario(harness: ClusterHarness) -> None:
        change = (SET, SESSION, "50000")
        refused = await alter(harness, GROUP, "readers", change, change)
        assert refused is ErrorCode.INVALID_REQUEST
        configs = [{"name": SESSION, "config_operation": SET, "value": "50000"}]
        resource = {"resource_type": GROUP, "resource_name": "readers", "configs": configs}
        reply, _ = handle_request(
            harness, 0, apis.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource, resource]
        )
        codes = {each.error_code for each in (await reply.get()).responses}
        assert codes == {ErrorCode.INVALID_REQUEST}
        assert await listed_groups(harness) == []
        harness.cluster.partition_node(2)
        late = await alter(harness, GROUP, "readers", change, node=2)
        assert late is ErrorCode.REQUEST_TIMED_OUT

    run_scenario(scenario)
