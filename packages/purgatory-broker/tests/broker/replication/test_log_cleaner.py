"""The nodes' compaction: when it happens, by how much at a time, and what goes on meanwhile."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log import compaction as compaction_module
from purgatory_broker.log.log_errors import StorageError
from purgatory_broker.log.record import build_batch
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.replication.log_manager import log_settings
from tests.broker.log.batches import NOW
from tests.broker.replication.cluster_harness import (
    KEY,
    ClusterHarness,
    fetched_values,
    run_scenario,
)

COMPACT = {"cleanup.policy": "compact"}
#: Each batch of `put` has a segment of its own.
SMALL = {"log_segment_bytes": 1_024, "log_cleaner_backoff_ms": 1_000}
HOUR_MS = 3_600_000


async def put(harness: ClusterHarness, key: bytes, value: bytes | None, times: int = 1) -> None:
    """Produce records of a key, each large enough for a segment of its own."""
    for _ in range(times):
        padded = None if value is None else value.ljust(1_000)
        await harness.produce_to(0, [(KEY, build_batch([(key, padded)], NOW))]).get()
    # Followers learn the high watermark by their next fetch.
    await asyncio.sleep(1)


def stripped(harness: ClusterHarness, node: int) -> list[bytes | None]:
    """Return the values in a replica's log."""
    return [value and value.strip() for value in harness.values(node)]


def test_dirty_log_is_compacted_on_each_node() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await put(harness, b"a", b"1", times=4)
        await asyncio.sleep(1)
        for node in range(3):
            # The active segment stays.
            assert [record.offset for record in harness.log(node).records()] == [2, 3]
            assert harness.log(node).cleaned_offset == 3

    run_scenario(scenario, configs=COMPACT, **SMALL)


def test_clean_log_waits_for_the_dirty_ratio() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        for number in range(7):
            await put(harness, b"%d" % number, b"x")
        await harness.cluster.compact("orders")
        # Seven segments are clean, and at most as many may be dirty.
        await put(harness, b"7", b"x", times=8)
        await asyncio.sleep(5)
        assert harness.log(0).cleaned_offset == 7
        await put(harness, b"7", b"x")
        await asyncio.sleep(5)
        assert harness.log(0).cleaned_offset == 15

    run_scenario(scenario, configs=COMPACT, **SMALL)


def test_topic_that_is_not_compacted_is_left_alone() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await put(harness, b"a", b"1", times=5)
        await asyncio.sleep(10)
        assert len(harness.values(0)) == 5
        with pytest.raises(
            ControllerError, match=r"cleanup\.policy=delete, not compact"
        ) as refused:
            await harness.cluster.compact("orders")
        assert refused.value.code is ErrorCode.INVALID_CONFIG

    run_scenario(scenario, **SMALL)


def test_records_are_not_compacted_before_the_least_lag() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await put(harness, b"a", b"1", times=5)
        harness.cluster.advance_time(HOUR_MS - 1)
        await asyncio.sleep(5)
        await harness.cluster.compact("orders")
        assert len(harness.values(0)) == 5
        harness.cluster.advance_time(1)
        await asyncio.sleep(0.1)  # It begins at once.
        assert [len(harness.values(node)) for node in range(3)] == [1, 1, 1]

    run_scenario(scenario, configs={**COMPACT, "min.compaction.lag.ms": str(HOUR_MS)}, **SMALL)


def test_records_are_compacted_after_the_longest_lag() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await put(harness, b"a", b"1", times=5)
        await asyncio.sleep(5)
        assert len(harness.values(0)) == 5
        harness.cluster.advance_time(HOUR_MS)
        await asyncio.sleep(0.1)
        assert len(harness.values(0)) == 5
        harness.cluster.advance_time(1)
        await asyncio.sleep(0.1)
        assert len(harness.values(0)) == 2

    run_scenario(
        scenario,
        configs={
            **COMPACT,
            "max.compaction.lag.ms": str(HOUR_MS),
            "min.cleanable.dirty.ratio": "1",
        },
        **SMALL,
    )


def test_longest_lag_closes_segments() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        topic = harness.cluster.controller.topics["orders"]
        assert log_settings(topic, harness.cluster.settings).segment_ms == 50

    run_scenario(scenario, configs={**COMPACT, "max.compaction.lag.ms": "50", "segment.ms": "100"})


def test_command_compacts_each_live_replica() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.kill(2)
        for value in (b"1", b"2"):
            await harness.produce_to(0, [(KEY, build_batch([(b"a", value)], NOW))]).get()
        # The follower has not learnt the high watermark yet.
        assert harness.replica(1).high_watermark < 2
        await harness.cluster.compact("orders")
        assert [harness.values(node) for node in (0, 1)] == [[b"2"], [b"2"]]
        await harness.cluster.restart(2)
        await harness.until(lambda: 2 in harness.isr)
        assert harness.values(2) == [b"2"]
        assert harness.log(2).end_offset == 2

    run_scenario(scenario, configs=COMPACT)


def test_log_with_many_keys_is_compacted_in_several_passes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compaction_module, "MAX_KEY_BYTES", 1)
    caplog.set_level(logging.INFO)

    async def scenario(harness: ClusterHarness) -> None:
        for number in range(6):
            await put(harness, b"%d" % (number % 2), b"%d" % number)
        caplog.clear()
        await harness.cluster.compact("orders")
        assert stripped(harness, 0) == [b"4", b"5"]
        assert sum("compacted orders-0" in each for each in caplog.messages) > 1

    run_scenario(scenario, nodes=1, configs=COMPACT, log_segment_bytes=1_024)


def test_record_that_is_not_replicated_is_not_compacted() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce_to(0, [(KEY, build_batch([(b"a", b"1")], NOW))]).get()
        for node in (1, 2):
            harness.cluster.pause_replication(node)
        harness.produce_to(0, [(KEY, build_batch([(b"a", b"2")], NOW))])
        await harness.cluster.compact("orders")
        assert harness.values(0) == [b"1", b"2"]
        for node in (1, 2):
            harness.cluster.resume_replication(node)
        await asyncio.sleep(1)
        await harness.cluster.compact("orders")
        assert [harness.values(node) for node in range(3)] == [[b"2"]] * 3

    run_scenario(scenario, configs=COMPACT)


def test_record_that_will_be_truncated_hides_no_other() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        cluster = harness.cluster
        await harness.produce_to(0, [(KEY, build_batch([(b"a", b"1")], NOW))]).get()
        for node in (1, 2):
            cluster.pause_replication(node)
        # Only the leader has it, which is about to lose its place.
        harness.produce_to(0, [(KEY, build_batch([(b"a", b"lost")], NOW))], acks=1)
        cluster.kill(0)
        for node in (1, 2):
            cluster.resume_replication(node)
        await harness.until(lambda: harness.leader > 0)
        await harness.settle()
        leader = harness.leader
        await harness.produce_to(leader, [(KEY, build_batch([(b"b", b"1")], NOW))]).get()
        cluster.pause_replication(0)
        await cluster.restart(0)
        await cluster.compact("orders")
        cluster.resume_replication(0)
        await harness.until(lambda: 0 in harness.isr)
        assert [harness.values(node) for node in range(3)] == [[b"1", b"1"]] * 3

    run_scenario(scenario, configs=COMPACT)


def test_tombstones_go_after_their_time() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        for value in (b"1", None):
            await harness.produce_to(0, [(KEY, build_batch([(b"a", value)], NOW))]).get()
        await harness.cluster.compact("orders")
        assert harness.values(0) == [None]
        harness.cluster.advance_time(HOUR_MS - 1)
        await harness.cluster.compact("orders")
        assert harness.values(0) == [None]
        harness.cluster.advance_time(1)
        await harness.cluster.compact("orders")
        assert [harness.values(node) for node in range(3)] == [[]] * 3
        assert [harness.log(node).end_offset for node in range(3)] == [2] * 3

    run_scenario(scenario, configs={**COMPACT, "delete.retention.ms": str(HOUR_MS)})


def test_fetch_from_an_offset_that_is_gone_reads_the_next_record() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        for number in range(6):
            await harness.produce_to(0, [(KEY, build_batch([(b"a", b"%d" % number)], NOW))]).get()
        waiting = harness.fetch(0, 6)
        await harness.cluster.compact("orders")
        for offset in range(6):
            (found,) = await harness.fetch(0, offset, max_bytes=1).get()
            values = fetched_values(found.records)
            assert values in ([b"5"], []), offset
            assert found.log_start_offset == 0
        assert not waiting.done
        await harness.produce_to(0, [(KEY, build_batch([(b"a", b"new")], NOW))]).get()
        (found,) = await waiting.get()
        assert fetched_values(found.records) == [b"new"]

    run_scenario(scenario, configs=COMPACT)


def test_replica_that_was_away_fetches_what_is_left() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await put(harness, b"a", b"1", times=3)
        harness.cluster.kill(2)
        await put(harness, b"a", b"2", times=3)
        await put(harness, b"b", b"2", times=3)
        await harness.cluster.compact("orders")
        # It asks for an offset that is gone.
        await harness.cluster.restart(2)
        await harness.until(lambda: 2 in harness.isr)
        await harness.cluster.compact("orders")
        assert [stripped(harness, node) for node in range(3)] == [[b"2", b"2"]] * 3
        harness.cluster.move_leader("orders", 0, 2)
        await harness.settle()
        await harness.produce_to(2, [(KEY, build_batch([(b"a", b"3")], NOW))]).get()

    run_scenario(scenario, configs=COMPACT, **SMALL)


@pytest.mark.parametrize("in_files", [True, False])
def test_node_is_killed_in_the_middle(
    tmp_path: Path, in_files: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_module, "RECORDS_PER_SLICE", 1)

    async def scenario(harness: ClusterHarness) -> None:
        for turns in range(0, 30, 5):
            await put(harness, b"a", b"%d" % turns, times=2)
            compacting = asyncio.create_task(harness.cluster.compact("orders"))
            for _ in range(turns):
                await asyncio.sleep(0)
            for node in range(3):
                harness.cluster.kill(node)
            await compacting
            for node in range(3):
                await harness.cluster.restart(node)
            await harness.until(lambda: harness.leader >= 0 and len(harness.isr) == 3)
            harness.cluster.move_leader("orders", 0, 0)
            await harness.settle()
            for node in range(3):
                assert stripped(harness, node)[-1] == b"%d" % turns

    run_scenario(
        scenario, configs=COMPACT, data_dir=tmp_path / "data" if in_files else None, **SMALL
    )


def test_topic_is_deleted_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_module, "RECORDS_PER_SLICE", 1)

    async def scenario(harness: ClusterHarness) -> None:
        await put(harness, b"a", b"1", times=10)
        compacting = asyncio.create_task(harness.cluster.compact("orders"))
        for _ in range(5):
            await asyncio.sleep(0)
        harness.cluster.delete_topic("orders")
        await compacting
        await harness.create_topic(**COMPACT)
        assert harness.values(0) == []

    run_scenario(scenario, configs=COMPACT, data_dir=tmp_path / "data", **SMALL)


def test_records_are_deleted_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_module, "RECORDS_PER_SLICE", 1)

    async def scenario(harness: ClusterHarness) -> None:
        await put(harness, b"a", b"1", times=10)
        compacting = asyncio.create_task(harness.cluster.compact("orders"))
        for _ in range(5):
            await asyncio.sleep(0)
        await harness.delete(0, 7).get()
        await compacting
        for node in range(3):
            assert stripped(harness, node) == [b"1"]
            assert harness.log(node).log_start_offset == 7

    run_scenario(scenario, configs=COMPACT, **SMALL)


def test_two_commands_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_module, "RECORDS_PER_SLICE", 1)

    async def scenario(harness: ClusterHarness) -> None:
        await put(harness, b"a", b"1", times=10)
        await asyncio.gather(*(harness.cluster.compact("orders") for _ in range(3)))
        assert [stripped(harness, node) for node in range(3)] == [[b"1"]] * 3

    run_scenario(scenario, configs=COMPACT, **SMALL)


@pytest.mark.parametrize("error", [StorageError("no space left"), KeyError("no space left")])
def test_log_that_can_not_be_compacted_is_left_as_it_is(
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object) -> None:
        raise error

    async def scenario(harness: ClusterHarness) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("purgatory_broker.log.log_folder.LogFolder.take_place", full)
            await put(harness, b"a", b"1", times=5)
            await asyncio.sleep(5)
        errors = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
        assert sorted(errors) == [
            f"node {node}: can't compact orders-0, which is left as it is: {error}"
            for node in range(3)
        ]
        await asyncio.sleep(5)
        assert [len(harness.values(node)) for node in range(3)] == [5] * 3
        await harness.cluster.compact("orders")
        assert [len(harness.values(node)) for node in range(3)] == [1] * 3
        assert not list((tmp_path / "data").rglob("*.cleaned"))

    run_scenario(scenario, configs=COMPACT, data_dir=tmp_path / "data", **SMALL)


def test_what_was_compacted_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "purgatory_broker.replication.log_cleaner")

    async def scenario(harness: ClusterHarness) -> None:
        await put(harness, b"a", b"1", times=3)
        await harness.cluster.compact("orders")

    run_scenario(scenario, configs=COMPACT)
    assert caplog.records[0].getMessage() == (
        "node 0: compacted orders-0, where offsets 0 to 3 were new: 1 of 3 records and 1132 of "
        "3213 bytes are left"
    )


def test_policy_of_a_topic_is_changed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        for key in (None, b"a", b"a"):
            await harness.produce_to(0, [(KEY, build_batch([(key, b"1")], NOW))]).get()
        harness.cluster.controller.topic_changes.alter_configs("orders", COMPACT)
        await harness.settle()
        await harness.cluster.compact("orders")
        assert [record.offset for record in harness.log(0).records()] == [2]
        # A follower that begins anew takes the gaps of a topic that is not compacted any more.
        harness.cluster.controller.topic_changes.alter_configs("orders", {})
        await harness.settle()
        harness.replica(2).truncate_fully_and_start_at(0)
        await harness.until(lambda: harness.log(2).end_offset == 3)
        assert [record.offset for record in harness.log(2).records()] == [2]

    run_scenario(scenario)
    warning = "node 0: compaction of orders-0 has removed 1 records without a key"
    assert warning in [each.getMessage() for each in caplog.records]
