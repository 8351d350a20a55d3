"""Loading and unloading partitions when the coordinator changes."""

from __future__ import annotations

import asyncio
import logging

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.group import GroupState
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.modern.share_group import ShareGroup
from purgatory_broker.groups.shards import StoredRecord
from purgatory_broker.groups.share.messages import ShareHeartbeat
from purgatory_broker.metadata.topics import java_partition
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.consumers import beat
from tests.broker.groups.harness import CLIENT, CoordinatorHarness, run_scenario, sleep_ms


@pytest.mark.parametrize(
    ("group_id", "code"),
    [
        ("", 0),
        ("group", 98629247),
        ("my-group", 1906497762),
        ("é\u4e2d\U0001f600", 27946695),
        ("a" * 23, 928669441),
        ("polygenelubricants", 0),
    ],
)
def test_partition_of_a_group_is_that_of_kafka(group_id: str, code: int) -> None:
    """The expected numbers are results of Java's `hashCode` and Kafka's `Utils.abs`."""
    assert [java_partition(group_id, count) for count in (1, 4, 50, 2**31)] == [
        0,
        code % 4,
        code % 50,
        code,
    ]


def test_node_without_the_partition_rejects_every_request() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        harness.coordinator.unload(harness.coordinator.partition_for(GROUP))
        harness.coordinator.unload(harness.coordinator.partition_for(GROUP))
        error = ErrorCode.NOT_COORDINATOR
        joining = harness.join(leader)
        assert (joining.error, joining.response.member_id) == (error, "")
        assert harness.sync(leader, 1).error is error
        assert harness.heartbeat(leader, 1) is error
        assert harness.leave((leader, None)).error_code == error
        assert harness.commit({("t", 0): 1}).response.topics[0].partitions[0].error_code == error
        assert harness.fetch(None).error_code == error
        assert harness.delete_offsets("t", 0).error is error
        assert harness.describe_groups(GROUP)[0].error_code == error
        assert [each.error_code for each in harness.delete_groups(GROUP).response.results] == [
            error
        ]
        assert harness.list_groups().groups == []
        assert harness.num_pending == (0, 0, 0)

    run_scenario(scenario)


def test_stable_group_survives_a_change_of_coordinator() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        harness.commit({("t", 0): 5}, member_id=leader, generation=2)
        before = harness.group
        harness.restart()
        after = harness.group
        assert after is not before
        assert after.state is GroupState.STABLE
        assert (after.generation, after.leader_id, after.protocol, after.protocol_type) == (
            2,
            leader,
            "range",
            "consumer",
        )
        assert harness.heartbeat(follower, 2) is ErrorCode.NONE
        assert harness.sync(follower, 2).response.assignment == follower.encode()
        assert harness.committed() == {("t", 0): 5}
        again = harness.join(leader)
        harness.join(follower)
        assert again.response.generation_id == 3

    run_scenario(scenario)


def test_sessions_start_anew_after_a_change_of_coordinator() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2, session_ms=20_000)
        await sleep_ms(15_000)
        harness.restart()
        await sleep_ms(15_000)
        assert harness.heartbeat(leader, 2) is ErrorCode.NONE
        await sleep_ms(5_001)
        assert list(harness.group.members) == [leader]
        assert follower not in harness.group.members

    run_scenario(scenario)


def test_pending_requests_get_not_coordinator_on_unload() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        ids = harness.stable_group(2)
        joining = harness.join(ids[0])
        harness.restart()
        assert joining.error is ErrorCode.NOT_COORDINATOR
        harness.join(ids[0])
        harness.join(ids[1])
        syncing = harness.sync(ids[1], 3)
        harness.log.is_held = True
        other = harness.sync(ids[0], 3, {})
        commit = harness.commit({("t", 0): 1}, group_id="other")
        harness.restart()
        assert {syncing.error, other.error} == {ErrorCode.NOT_COORDINATOR}
        harness.log.release()
        assert commit.response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR

    run_scenario(scenario)


def test_generation_without_assignment_is_lost_with_its_coordinator() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        harness.join(leader)
        harness.join(follower)
        harness.restart()
        assert harness.group.generation == 2
        assert harness.sync(leader, 3, {}).error is ErrorCode.ILLEGAL_GENERATION

    run_scenario(scenario)


def test_loading_a_loaded_partition_changes_nothing() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        joining = harness.join_with_id()
        partition = harness.coordinator.partition_for(GROUP)
        harness.coordinator.load(partition, harness.log.records[partition])
        assert harness.group.state is GroupState.PREPARING_REBALANCE
        harness.join(leader)
        assert joining.response.generation_id == 2

    run_scenario(scenario)


def test_records_that_cannot_be_decoded_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.stable_group(1)
        partition = harness.coordinator.partition_for(GROUP)
        good = harness.log.records[partition]
        bad = [
            StoredRecord(b"\0\2", b""),
            StoredRecord(b"\0\1\0\1g", None),
            StoredRecord(b"\0\2\0\1g", b"\0\4"),
            StoredRecord(b"\0\3\0\1g", b"\0\0"),
            StoredRecord(b"\0\x11\0\1g", b"\0\0"),
        ]
        harness.log.records[partition] = [*bad[:2], *good, *bad[2:]]
        with caplog.at_level(logging.ERROR):
            harness.restart()
        assert caplog.text.count("skipped a record") == 4
        assert [each.group_id for each in harness.coordinator.groups] == [GROUP]

    run_scenario(scenario)


def test_unload_answers_pending_requests() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        ids = harness.stable_group(2)
        joining = harness.join(ids[0])
        harness.unload()
        assert joining.error is ErrorCode.NOT_COORDINATOR
        assert (
            harness.num_pending,
            list(harness.coordinator._shards),
            harness.coordinator.groups,
        ) == (
            (0, 0, 0),
            [],
            [],
        )

    run_scenario(scenario)


def test_compacted_share_group_has_its_states_although_they_are_its_oldest_record() -> None:
    """Without the states, the group would begin anew with partitions that it has read."""

    async def scenario(harness: CoordinatorHarness) -> None:
        topic = harness.topics.create("t", 1)

        def heartbeat(member_id: str, epoch: int) -> None:
            request = ShareHeartbeat(
                group_id=GROUP,
                member_id=member_id,
                member_epoch=epoch,
                client=CLIENT,
                rack_id=None,
                topics=frozenset({"t"}),
            )
            harness.coordinator.share.heartbeat(request, lambda _result: None)

        heartbeat("first", 0)
        heartbeat("first", 1)
        heartbeat("first", -1)
        heartbeat("second", 0)
        harness.compact()
        harness.restart()
        (group,) = harness.coordinator.groups
        assert isinstance(group, ShareGroup)
        assert group.states.initialized_partitions == {(topic.topic_id, 0)}
        assert set(group.members) == {"second"}

    run_scenario(scenario)


def test_compacted_consumer_group_has_its_expression_although_it_is_its_oldest_record() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t", 1)
        nothing: frozenset[tuple[str, int]] = frozenset()
        beat(harness, "a", 0, owned=nothing, topics=None, regex="t")
        await asyncio.sleep(0.1)
        beat(harness, "b", 0, owned=nothing, topics=None, regex="t")
        beat(harness, "a", -1, full=False)
        beat(harness, "c", 0, owned=nothing, topics=None, regex="t")
        beat(harness, "b", -1, full=False)
        harness.compact()
        (before,) = harness.coordinator.groups
        harness.restart()
        (after,) = harness.coordinator.groups
        assert isinstance(before, ConsumerGroup)
        assert isinstance(after, ConsumerGroup)
        assert before.regexes
        for name in ("members", "current", "targets", "regexes", "epoch", "target_epoch"):
            assert getattr(after, name) == getattr(before, name), name

    run_scenario(scenario)
