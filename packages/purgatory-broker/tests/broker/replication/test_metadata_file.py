"""The file of the cluster's metadata: a full disk, and a damaged file."""

from __future__ import annotations

import asyncio
import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker import Cluster, ClusterError, ClusterProcess, ClusterSettings
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.metadata.topics import NO_LEADER, ControllerError
from purgatory_broker_command import main
from purgatory_command_line.exit_codes import ExitCode
from request_purgatory.errors import InvalidArgumentError
from tests.broker import apis
from tests.broker.conftest import FullMetadataDisk
from tests.broker.replication.cluster_harness import (
    ClusterHarness,
    error,
    handle_request,
    run_scenario,
)


def test_change_that_can_not_be_stored_is_refused(
    tmp_path: Path, full_metadata_disk: FullMetadataDisk, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        controller = harness.cluster.controller
        changes: list[Callable[[], object]] = [
            lambda: harness.cluster.create_topic("more"),
            lambda: controller.topic_changes.add_partitions("orders", 4, None),
            lambda: controller.topic_changes.alter_configs("orders", {"retention.ms": "5"}),
            lambda: harness.cluster.move_leader("orders", 0, 1),
            lambda: controller.topic_changes.delete("orders"),
        ]
        before = copy.deepcopy(controller.topics)
        stored = (tmp_path / "cluster.json").read_bytes()
        with full_metadata_disk():
            for change in changes:
                with pytest.raises(ControllerError, match="No space left") as caught:
                    change()
                assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            topics = [{"name": "more", "num_partitions": 1, "replication_factor": 1}]
            reply, _ = handle_request(harness, 0, apis.CREATE_TOPICS, 5, topics=topics)
            created = (await reply.get()).topics[0]
            assert created.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            configs = [{"name": "retention.ms", "config_operation": 0, "value": "5"}]
            resources = [{"resource_type": 2, "resource_name": "orders", "configs": configs}]
            reply, _ = handle_request(
                harness, 0, apis.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources
            )
            altered = (await reply.get()).responses[0]
            assert altered.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            reply, _ = handle_request(harness, 0, apis.FIND_COORDINATOR, 2, key="g", key_type=0)
            assert (await reply.get()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await harness.settle()
            assert controller.topics == before
            assert controller.names == {before["orders"].topic_id: "orders"}
        assert (tmp_path / "cluster.json").read_bytes() == stored
        assert "can't write the cluster's metadata" in caplog.text
        assert error(await harness.produce(0, b"a").get()) is ErrorCode.NONE
        for change in changes:
            change()
        await harness.settle()
        assert list(controller.topics) == ["more"]
        await harness.create_topic()

    run_scenario(scenario, data_dir=tmp_path)


def test_producer_id_is_not_assigned_twice(
    tmp_path: Path, full_metadata_disk: FullMetadataDisk
) -> None:
    """Ids that can't be reserved in the file are not assigned; Kafka's error lets clients retry."""

    async def assign(harness: ClusterHarness) -> Any:
        fields = {"transactional_id": None, "transaction_timeout_ms": 0}
        fields |= {"producer_id": -1, "producer_epoch": -1}
        return await handle_request(harness, 0, apis.INIT_PRODUCER_ID, 4, **fields)[0].get()

    async def before(harness: ClusterHarness) -> set[int]:
        with full_metadata_disk():
            refused = await assign(harness)
            assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert refused.producer_id == -1
        assigned = {(await assign(harness)).producer_id for _ in range(3)}
        with full_metadata_disk():
            while (found := await assign(harness)).error_code == 0:
                assigned.add(found.producer_id)
                assert len(assigned) < 10_000
        return assigned

    async def after(harness: ClusterHarness) -> int:
        return int((await assign(harness)).producer_id)

    assigned = run_scenario(before, data_dir=tmp_path)
    assert run_scenario(after, data_dir=tmp_path) not in assigned


def test_leader_that_can_not_be_stored_is_not_elected(
    tmp_path: Path, full_metadata_disk: FullMetadataDisk
) -> None:
    """After a restart, its leader epoch would belong to another leader."""

    async def before(harness: ClusterHarness) -> int:
        await harness.produce(0, b"a").get()
        with full_metadata_disk():
            harness.cluster.kill(0)
            await harness.settle()
            assert (harness.leader, harness.isr) == (NO_LEADER, {0, 1, 2})
            for node in (1, 2):
                refused = await harness.produce(node, b"lost").get()
                assert error(refused) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        # The next change that is stored elects a leader, too.
        harness.cluster.create_topic("other", replication_factor=1)
        await harness.settle()
        assert (harness.leader, harness.isr) == (1, {1, 2})
        assert error(await harness.produce(1, b"b").get()) is ErrorCode.NONE
        return int(harness.state()["leader_epoch"])

    async def after(harness: ClusterHarness) -> tuple[int, list[bytes | None]]:
        return harness.state()["leader_epoch"], harness.values(harness.leader)

    epoch = run_scenario(before, data_dir=tmp_path)
    later, values = run_scenario(after, data_dir=tmp_path)
    assert later > epoch
    assert values == [b"a", b"b"]


def test_in_sync_replicas_that_can_not_be_stored_do_not_change(
    tmp_path: Path, full_metadata_disk: FullMetadataDisk
) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        with full_metadata_disk():
            harness.cluster.pause_replication(2)
            reply = harness.produce(0, b"a", timeout_ms=60_000)
            await asyncio.sleep(30)
            assert (harness.isr, reply.done) == ({0, 1, 2}, False)
        await harness.until(lambda: harness.isr == {0, 1})
        assert error(await reply.get()) is ErrorCode.NONE

    run_scenario(scenario, data_dir=tmp_path)


DAMAGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "no topics": lambda data: data.pop("topics"),
    "topics of another type": lambda data: data.update(topics=5),
    "nodes as text": lambda data: data.update(nodes="3"),
    "negative producer ids": lambda data: data.update(producer_ids_taken=-1),
    "a topic without name": lambda data: data["topics"][0].pop("name"),
    "a changed name": lambda data: data["topics"][0].update(name="ord/rs"),
    "a changed id": lambda data: data["topics"][0].update(topic_id="?"),
    "a topic twice": lambda data: data["topics"].append(data["topics"][0]),
    "a topic without partitions": lambda data: data["topics"][0]["partitions"].clear(),
    "a changed config": lambda data: data["topics"][0]["configs"].update({"retentiom.ms": "1"}),
    "a partition without epoch": lambda data: partition_of(data).pop("leader_epoch"),
    "an epoch as text": lambda data: partition_of(data).update(leader_epoch="1"),
    "no replicas": lambda data: partition_of(data).update(replicas=[]),
    "a replica twice": lambda data: partition_of(data).update(replicas=[0, 0, 1]),
    "an in-sync replica that is none": lambda data: partition_of(data).update(isr=[7]),
    "a leader that is no replica": lambda data: partition_of(data).update(leader=7),
}


def partition_of(data: dict[str, Any]) -> dict[str, Any]:
    """Return the first partition of the first topic in the file."""
    found: dict[str, Any] = data["topics"][0]["partitions"][0]
    return found


def stored_cluster(data_dir: Path) -> Path:
    """Store a cluster, and return its metadata file."""
    run_scenario(lambda harness: harness.settle(), data_dir=data_dir)
    return data_dir / "cluster.json"


def assert_is_refused(data_dir: Path) -> None:
    """Assert that a cluster does not start on the directory, and leaves it as it is."""
    content = (data_dir / "cluster.json").read_bytes()
    # Again, to see that the first refusal has released the directory.
    for _ in range(2):
        with pytest.raises(
            InvalidArgumentError, match=r"whose cluster\.json is not damaged"
        ) as caught:
            AsyncCluster(ClusterSettings(nodes=3, data_dir=data_dir))
        assert str(data_dir) in str(caught.value)
    assert (data_dir / "cluster.json").read_bytes() == content


@pytest.mark.parametrize("nodes", [1, 3])
def test_logs_whose_metadata_is_lost_are_refused(tmp_path: Path, nodes: int) -> None:
    """And stay as they are, also those of nodes that the cluster no longer has."""
    run_scenario(lambda harness: harness.settle(), data_dir=tmp_path)
    metadata = (tmp_path / "cluster.json").read_bytes()
    (tmp_path / "cluster.json").unlink()
    if nodes == 1:
        for node in (0, 1):
            shutil.rmtree(tmp_path / f"node-{node}" / "orders-0")
    files = sorted(tmp_path.rglob("*"))
    for _ in range(2):
        with pytest.raises(
            InvalidArgumentError, match=f"logs such as node-{0 if nodes == 3 else 2}/orders-0"
        ) as refused:
            AsyncCluster(ClusterSettings(nodes=nodes, data_dir=tmp_path))
        assert str(tmp_path) in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == files
    (tmp_path / "cluster.json").write_bytes(metadata)
    run_scenario(lambda harness: harness.settle(), data_dir=tmp_path)
    assert (tmp_path / "node-2" / "orders-0").is_dir()


def test_cluster_leaves_alone_what_is_not_its_own(tmp_path: Path) -> None:
    foreign = [tmp_path / "other", tmp_path / "node-0" / "photos-2024", tmp_path / "node-9" / "a-1"]
    for folder in foreign:
        folder.mkdir(parents=True)
        (folder / "picture.jpg").write_text("of somebody")

    async def scenario(harness: ClusterHarness) -> None:
        await harness.settle()
        await harness.cluster.reset()

    for _ in range(2):
        run_scenario(scenario, data_dir=tmp_path)
    assert all((folder / "picture.jpg").exists() for folder in foreign)


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_damaged_metadata_is_refused(
    tmp_path: Path, damage: Callable[[dict[str, Any]], object]
) -> None:
    path = stored_cluster(tmp_path)
    data = json.loads(path.read_text())
    damage(data)
    path.write_text(json.dumps(data))
    assert_is_refused(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"5", b"\xff\xfe", b"{}"])
def test_unreadable_metadata_is_refused(tmp_path: Path, content: bytes) -> None:
    stored_cluster(tmp_path).write_bytes(content)
    assert_is_refused(tmp_path)


def test_commands_report_damaged_metadata(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stored_cluster(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    for start in (Cluster, ClusterProcess):
        with pytest.raises((InvalidArgumentError, ClusterError), match="is not damaged"):
            start(nodes=3, data_dir=tmp_path).start()
    serve = ["serve", "--nodes", "3", "--port", "0", "--control", "0"]
    assert main([*serve, "--data-dir", str(tmp_path)]) == ExitCode.BAD_INPUT
    assert "is not damaged" in capsys.readouterr().err


def test_process_reports_data_of_more_nodes(tmp_path: Path) -> None:
    stored_cluster(tmp_path)
    with pytest.raises(ClusterError, match="nodes must be at least 3"):
        ClusterProcess(nodes=2, data_dir=tmp_path).start()
