"""What settings do that clients change at run time."""

from __future__ import annotations

from pathlib import Path

from purgatory_broker import Cluster
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import NO_LEADER
from tests.broker.conftest import Connect
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.replication.cluster_harness import ClusterHarness, error, run_scenario
from tests.broker.replication.test_resource_configs import BROKER, DELETE, SET, alter, values

MAX_BYTES = "message.max.bytes"
UNCLEAN = "unclean.leader.election.enable"


async def change(
    harness: ClusterHarness, name: str, key: str, value: str | None, node: int = 0
) -> None:
    """Set a setting of a broker, or of all; None removes it."""
    operation = DELETE if value is None else SET
    assert await alter(harness, BROKER, name, (operation, key, value), node=node) is ErrorCode.NONE
    await harness.settle()


def test_settings_survive_a_restart_but_not_a_reset(tmp_path: Path) -> None:
    async def before(harness: ClusterHarness) -> None:
        await change(harness, "", MAX_BYTES, "300")
        assert harness.log(0).settings.max_message_bytes == 300

    async def after(harness: ClusterHarness) -> None:
        assert await values(harness, BROKER, "0", MAX_BYTES) == {MAX_BYTES: ("300", 3)}
        assert {harness.log(node).settings.max_message_bytes for node in range(3)} == {300}
        await harness.cluster.reset()
        assert await values(harness, BROKER, "0", MAX_BYTES) == {MAX_BYTES: ("1048588", 5)}
        await harness.create_topic()
        assert harness.log(0).settings.max_message_bytes == 1_048_588

    run_scenario(before, data_dir=tmp_path)
    run_scenario(after, data_dir=tmp_path)


def test_setting_of_one_broker_is_its_own() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await change(harness, "", MAX_BYTES, "300")
        await change(harness, "1", MAX_BYTES, "400", node=1)
        limits = [harness.log(node).settings.max_message_bytes for node in range(3)]
        assert limits == [300, 400, 300]
        await change(harness, "", MAX_BYTES, None)
        limits = [harness.log(node).settings.max_message_bytes for node in range(3)]
        assert limits == [1_048_588, 400, 1_048_588]

    run_scenario(scenario)


def test_node_out_of_reach_learns_settings_later() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.partition_node(2)
        await change(harness, "", MAX_BYTES, "300")
        assert harness.log(2).settings.max_message_bytes == 1_048_588
        assert harness.node(2).settings.topic_defaults == {}
        harness.cluster.heal_node(2)
        await harness.until(lambda: harness.log(2).settings.max_message_bytes == 300)

    run_scenario(scenario)


def test_unclean_election_is_allowed_for_all_topics() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        harness.cluster.pause_replication(2)
        harness.produce(0, b"a")
        await harness.until(lambda: harness.isr == {0})
        harness.cluster.kill(0)
        await harness.until(lambda: harness.leader == NO_LEADER)
        await change(harness, "", UNCLEAN, "true", node=1)
        assert (harness.leader, harness.isr) == (1, {1})

    run_scenario(scenario)


def test_writes_need_the_changed_number_of_replicas() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        harness.cluster.pause_replication(2)
        harness.produce(0, b"a")
        await harness.until(lambda: harness.isr == {0})
        await change(harness, "", "min.insync.replicas", "2")
        assert error(await harness.produce(0, b"b").get()) is ErrorCode.NOT_ENOUGH_REPLICAS

    run_scenario(scenario)


def test_number_of_replicas_for_all_brokers_can_not_be_removed() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await change(harness, "", "min.insync.replicas", "2")
        await change(harness, "", MAX_BYTES, "300")
        removal = (DELETE, "min.insync.replicas", None)
        assert await alter(harness, BROKER, "", removal) is ErrorCode.INVALID_CONFIG
        await change(harness, "", MAX_BYTES, None)
        assert await values(harness, BROKER, "", "min.insync.replicas") == {
            "min.insync.replicas": ("2", 3)
        }

    run_scenario(scenario)


def test_limit_of_connections_is_changed(connect: Connect) -> None:
    def is_open(client: RawClient) -> bool:
        try:
            return bool(client.call("Metadata", 9, topics=[]).brokers)
        except ConnectionClosedError:
            return False

    with Cluster() as cluster:
        admin = connect(cluster.bootstrap_servers)
        configs = [{"name": "max.connections", "config_operation": SET, "value": "1"}]
        resource = {"resource_type": BROKER, "resource_name": "", "configs": configs}
        answer = admin.call("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
        assert answer.responses[0].error_code == 0
        assert not is_open(connect(cluster.bootstrap_servers))
        assert is_open(admin)
