"""Transactions on replicas: markers, read_committed fetches, and the last stable offset."""

from __future__ import annotations

import asyncio
from pathlib import Path

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.registry import find_api
from purgatory_broker.log.batch import split_batches
from purgatory_broker.metadata.topics import TopicPartition
from tests.broker.replication.cluster_harness import (
    KEY,
    ClusterHarness,
    Reply,
    error,
    fetched_values,
    handle_request,
    run_scenario,
)

LONG_MS = 60_000


def pause_followers(harness: ClusterHarness) -> None:
    """Stop the replication to nodes 1 and 2."""
    for node in (1, 2):
        harness.cluster.pause_replication(node)


def resume_followers(harness: ClusterHarness) -> None:
    """Let nodes 1 and 2 replicate again."""
    for node in (1, 2):
        harness.cluster.resume_replication(node)


# -- fetch


def test_read_committed_fetch_reads_to_the_last_stable_offset() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await harness.begin(0, b"b").get()
        await harness.produce(0, b"c").get()
        (committed,) = await harness.fetch(0, 0, read_committed=True).get()
        assert fetched_values(committed.records) == [b"a"]
        assert (committed.high_watermark, committed.last_stable_offset) == (3, 1)
        assert committed.aborted == []
        (uncommitted,) = await harness.fetch(0, 0).get()
        assert fetched_values(uncommitted.records) == [b"a", b"b", b"c"]
        assert (uncommitted.high_watermark, uncommitted.last_stable_offset) == (3, 1)
        assert uncommitted.aborted is None

    run_scenario(scenario)


def test_aborted_transactions_are_listed_for_read_committed_alone() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a").get()
        await harness.end(0, commit=False).get()
        (committed,) = await harness.fetch(0, 0, read_committed=True).get()
        assert committed.aborted is not None
        assert [each[:2] for each in committed.aborted] == [(7, 0)]
        assert committed.last_stable_offset == 2
        assert (await harness.fetch(0, 0).get())[0].aborted is None
        (empty,) = await harness.fetch(0, 2, read_committed=True, max_wait_ms=0).get()
        assert empty.aborted == []
        (refused,) = await harness.fetch(0, 3, read_committed=True).get()
        assert (refused.error, refused.aborted) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)

    run_scenario(scenario)


def test_isolation_of_a_followers_fetch_does_not_count() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        pause_followers(harness)
        await harness.settle()
        harness.begin(0, b"a")
        harness.end(0, commit=False)
        (follower,) = await harness.fetch(0, 0, replica_id=1, epoch=0, read_committed=True).get()
        assert follower.aborted is None
        assert len(list(split_batches(follower.records))) == 2

    run_scenario(scenario)


def test_marker_wakes_read_committed_fetches() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a").get()
        committed = harness.fetch(0, 0, read_committed=True, max_wait_ms=LONG_MS)
        await harness.produce(0, b"b").get()
        await asyncio.sleep(1)
        assert not committed.done
        marker = harness.end(0, commit=True)
        assert (await marker.get()) == {KEY: ErrorCode.NONE}
        assert fetched_values((await committed.get())[0].records)[:2] == [b"a", b"b"]
        assert committed.waited_ms < 1_100

    run_scenario(scenario)


def test_stable_offset_is_never_after_the_high_watermark() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        pause_followers(harness)
        await harness.settle()
        harness.produce(0, b"a")
        harness.begin(0, b"b")
        assert harness.log(0).first_unstable_offset == 1
        assert harness.replica(0).last_stable_offset == 0

    run_scenario(scenario)


def test_marker_wakes_nobody_before_it_is_replicated() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a").get()
        committed = harness.fetch(0, 0, read_committed=True, max_wait_ms=LONG_MS)
        pause_followers(harness)
        await harness.settle()
        marker = harness.end(0, commit=False)
        await asyncio.sleep(1)
        assert (marker.done, committed.done) == (False, False)
        assert harness.purgatory("Produce") == 1
        assert harness.replica(0).last_stable_offset == 0
        resume_followers(harness)
        await marker.get()
        assert [each[:2] for each in (await committed.get())[0].aborted or []] == [(7, 0)]

    run_scenario(scenario)


def test_read_committed_fetch_waits_for_bytes_below_the_last_stable_offset() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a" * 500).get()
        await harness.produce(0, b"b" * 500).get()
        size = harness.log(0).size_bytes
        committed = harness.fetch(
            0, 0, read_committed=True, min_bytes=size + 78, max_wait_ms=LONG_MS
        )
        await harness.produce(0, b"c" * 500).get()
        assert not committed.done
        await harness.end(0, commit=True).get()
        assert committed.done

    run_scenario(scenario)


def test_fetch_from_after_the_stable_offset_is_answered_at_once() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a").get()
        await harness.produce(0, b"b").get()
        beyond = harness.fetch(0, 2, read_committed=True, max_wait_ms=LONG_MS)
        assert beyond.done
        (fetched,) = await beyond.get()
        assert (fetched.records, fetched.last_stable_offset, fetched.aborted) == (b"", 0, [])
        assert not harness.fetch(0, 2, max_wait_ms=LONG_MS).done
        assert not harness.fetch(0, 0, read_committed=True, max_wait_ms=LONG_MS).done

    run_scenario(scenario)


def test_stable_offset_never_goes_back_while_an_abort_is_under_way() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await harness.begin(0, b"b").get()
        await harness.begin(0, b"c", producer=(8, 0, 0)).get()
        pause_followers(harness)
        await harness.settle()
        seen = [harness.replica(0).last_stable_offset]
        replies = [harness.end(0, commit=False, producer_id=each) for each in (8, 7)]
        seen.append(harness.replica(0).last_stable_offset)
        harness.produce(0, b"d")
        seen.append(harness.replica(0).last_stable_offset)
        resume_followers(harness)
        for reply in replies:
            await reply.get()
            seen.append(harness.replica(0).last_stable_offset)
        await harness.settle()
        assert seen == sorted(seen)
        assert seen[:3] == [1, 1, 1]
        assert harness.replica(0).last_stable_offset == 6

    run_scenario(scenario)


def test_followers_learn_the_stable_offset_from_their_logs() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a").get()
        await harness.until(lambda: harness.replica(1).high_watermark == 1)
        assert harness.replica(1).last_stable_offset == 0
        waiting = harness.fetch(1, 0, leader_only=False, read_committed=True, max_wait_ms=LONG_MS)
        assert not waiting.done
        await harness.end(0, commit=False).get()
        (fetched,) = await waiting.get()
        assert [each[:2] for each in fetched.aborted or []] == [(7, 0)]
        assert harness.replica(1).last_stable_offset == 2

    run_scenario(scenario)


def test_new_leader_has_the_open_transactions() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a").get()
        await harness.until(lambda: harness.replica(1).high_watermark == 1)
        harness.cluster.move_leader("orders", 0, 1)
        await harness.settle()
        assert await harness.end(0, commit=True).get() == {KEY: ErrorCode.NOT_LEADER_OR_FOLLOWER}
        assert harness.replica(1).last_stable_offset == 0
        await harness.begin(1, b"b", producer=(7, 0, 1)).get()
        assert await harness.end(1, commit=True).get() == {KEY: ErrorCode.NONE}
        assert harness.replica(1).last_stable_offset == 3

    run_scenario(scenario)


def test_marker_that_was_not_replicated_is_truncated_with_its_leader() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a").get()
        pause_followers(harness)
        await harness.settle()
        harness.end(0, commit=False)
        assert harness.log(0).end_offset == 2
        harness.cluster.kill(0)
        await harness.until(lambda: harness.leader != 0)
        resume_followers(harness)
        leader = harness.leader
        await harness.until(lambda: harness.replica(leader).is_leader)
        assert harness.replica(leader).last_stable_offset == 0
        assert await harness.end(leader, commit=True).get() == {KEY: ErrorCode.NONE}
        (fetched,) = await harness.fetch(leader, 0, read_committed=True).get()
        assert fetched.aborted == []
        assert harness.replica(leader).last_stable_offset == 2

    run_scenario(scenario)


def test_transactions_survive_a_killed_cluster(tmp_path: Path) -> None:
    async def first(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a").get()
        await harness.end(0, commit=False, coordinator_epoch=2).get()
        await harness.begin(0, b"b", producer=(7, 0, 1)).get()
        for node in (1, 2, 0):
            harness.cluster.kill(node)

    async def second(harness: ClusterHarness) -> None:
        await harness.until(lambda: harness.leader >= 0 and len(harness.isr) == 3)
        leader = harness.leader
        await harness.until(lambda: harness.replica(leader).high_watermark == 3)
        assert harness.replica(leader).last_stable_offset == 2
        (fetched,) = await harness.fetch(leader, 0, read_committed=True).get()
        assert [each[:2] for each in fetched.aborted or []] == [(7, 0)]
        reply = await harness.end(leader, commit=True, coordinator_epoch=1).get()
        assert reply == {KEY: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
        assert await harness.end(leader, commit=True, coordinator_epoch=2).get() == {
            KEY: ErrorCode.NONE
        }
        assert harness.replica(leader).last_stable_offset == 4

    run_scenario(first, data_dir=tmp_path)
    run_scenario(second, data_dir=tmp_path)


# -- markers


def test_marker_without_enough_replicas_is_refused() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a").get()
        for node in (1, 2):
            harness.cluster.kill(node)
        await harness.until(lambda: harness.replica(0).isr == [0])
        assert await harness.end(0, commit=True).get() == {KEY: ErrorCode.NOT_ENOUGH_REPLICAS}
        assert harness.log(0).end_offset == 1

    run_scenario(scenario, min_insync_replicas=2)


def test_marker_that_is_not_replicated_times_out() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a").get()
        pause_followers(harness)
        await harness.settle()
        reply = harness.end(0, commit=True)
        assert await reply.get() == {KEY: ErrorCode.REQUEST_TIMED_OUT}
        assert reply.waited_ms >= 30_000

    run_scenario(scenario, replica_lag_time_max_ms=100_000)


def test_markers_have_a_result_for_each_partition() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.begin(0, b"a", producer=(7, 3, 0)).get()
        missing = TopicPartition("missing", 0)
        reply = await harness.end(0, commit=True, epoch=2, keys=(missing, KEY, KEY)).get()
        assert reply == {
            missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            KEY: ErrorCode.INVALID_PRODUCER_EPOCH,
        }
        assert await harness.end(0, commit=True, keys=()).get() == {}
        for nobody in ({"producer_id": -1}, {"epoch": -1}):
            reply = await harness.end(0, commit=True, **nobody).get()
            assert reply == {KEY: ErrorCode.UNKNOWN_SERVER_ERROR}
        assert harness.log(0).end_offset == 1
        assert await harness.end(1, commit=True, epoch=3).get() == {
            KEY: ErrorCode.NOT_LEADER_OR_FOLLOWER
        }

    run_scenario(scenario)


def test_marker_in_the_offsets_topic_ends_pending_offsets_once_replicated() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        handle_request(harness, 0, find_api("FindCoordinator"), 3, key="group", key_type=0)
        offsets = TopicPartition("__consumer_offsets", 1)
        await harness.until(lambda: offsets in harness.node(0).replicas.replicas)
        await harness.until(lambda: harness.state(offsets)["leader"] >= 0)
        leader = harness.state(offsets)["leader"]
        ended: list[tuple[int, int, bool]] = []
        markers = harness.node(leader).markers
        markers._on_offsets_marker = lambda *arguments: ended.append(arguments)
        pause_followers(harness)
        harness.cluster.pause_replication(0)
        await harness.settle()
        reply = harness.end(leader, commit=True, producer_id=9, keys=(offsets,))
        assert (reply.done, ended) == (False, [])
        resume_followers(harness)
        harness.cluster.resume_replication(0)
        assert await reply.get() == {offsets: ErrorCode.NONE}
        assert ended == [(1, 9, True)]
        other = (leader + 1) % 3
        harness.node(other).markers._on_offsets_marker = lambda *arguments: ended.append(arguments)
        await harness.end(other, commit=True, producer_id=9, keys=(offsets,)).get()
        leader_of_orders = harness.node(harness.leader)
        leader_of_orders.markers._on_offsets_marker = lambda *arguments: ended.append(arguments)
        assert await harness.end(harness.leader, commit=True).get() == {KEY: ErrorCode.NONE}
        assert len(ended) == 1

    run_scenario(scenario)


def list_offset(harness: ClusterHarness, timestamp: int, isolation: int) -> tuple[int, int]:
    """Ask node 0 for an offset; return (timestamp, offset)."""
    partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    reply, _ = handle_request(
        harness,
        0,
        find_api("ListOffsets"),
        7,
        replica_id=-1,
        isolation_level=isolation,
        topics=[{"name": KEY.topic, "partitions": [partition]}],
    )
    assert reply.value is not None
    result = reply.value.topics[0].partitions[0]
    return result.timestamp, result.offset


def test_list_offsets_read_committed_ends_at_the_last_stable_offset() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await harness.begin(0, b"b").get()
        await harness.produce(0, b"c").get()
        assert [list_offset(harness, -1, isolation)[1] for isolation in (0, 1)] == [3, 1]
        assert list_offset(harness, -2, 1)[1] == 0
        harness.log(0).advance_log_start_offset(1)
        assert list_offset(harness, 0, 0)[1] == 1
        assert list_offset(harness, 0, 1) == (-1, -1)
        await harness.end(0, commit=True).get()
        assert list_offset(harness, 0, 1)[1] == 1
        assert list_offset(harness, -1, 1)[1] == 4

    run_scenario(scenario)


def test_failed_transactional_append_does_not_open_a_transaction() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        reply: Reply = harness.begin(0, b"a", producer=(7, 0, 0))
        assert error(await reply.get()) is ErrorCode.NONE
        reply = harness.begin(0, b"a", producer=(7, 0, 5))
        assert error(await reply.get()) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert harness.log(0).producers[7].transaction_start == 0

    run_scenario(scenario)
