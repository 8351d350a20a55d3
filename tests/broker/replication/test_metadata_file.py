"""The file of the cluster's metadata: a full disk, and a damaged file."""

from __future__ import annotations

import asyncio
import copy
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.broker.metadata.topics import NO_LEADER
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker import apis
from tests.broker.replication.cluster_harness import (
    ClusterHarness,
    error,
    handle_request,
    run_scenario,
)

FullMetadataDisk = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def full_metadata_disk(monkeypatch: pytest.MonkeyPatch) -> FullMetadataDisk:
    """Return a function whose block leaves no space for the metadata file."""
    write = Path.open

    def failing(path: Path, *rest: Any, **more: Any) -> Any:
        if path.name.startswith("cluster."):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, *rest, **more)

    @contextmanager
    def full() -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "open", failing)
            yield

    return full


def test_change_that_can_not_be_stored_is_refused(
    tmp_path: Path, full_metadata_disk: FullMetadataDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """With KAFKA_STORAGE_ERROR. Nothing has changed, the cluster goes on, and so do its nodes."""

    async def scenario(harness: ClusterHarness) -> None:
        controller = harness.cluster.controller
        changes: list[Callable[[], object]] = [
            lambda: harness.cluster.create_topic("more"),
            lambda: controller.create_partitions("orders", 4, None),
            lambda: controller.alter_configs("orders", {"retention.ms": "5"}),
            lambda: harness.cluster.move_leader("orders", 0, 1),
            lambda: controller.delete_topic("orders"),
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
    """The leader goes on waiting for a follower that may be elected after a restart."""

    async def scenario(harness: ClusterHarness) -> None:
        with full_metadata_disk():
            harness.cluster.pause_replication(2)
            reply = harness.produce(0, b"a", timeout_ms=60_000)
            await asyncio.sleep(30)
            assert (harness.isr, reply.done) == ({0, 1, 2}, False)
        await harness.until(lambda: harness.isr == {0, 1})
        assert error(await reply.get()) is ErrorCode.NONE

    run_scenario(scenario, data_dir=tmp_path)
