"""Coordinators that take over, and those that are relieved."""

from __future__ import annotations

import logging

import pytest

from request_purgatory.broker.groups import GroupState, partition_of
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.groups.world import GROUP, World, ms, play


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
def test_partition_of_a_group_is_that_of_java(group_id: str, code: int) -> None:
    """The numbers are what Java's `hashCode` and Kafka's `Utils.abs` gave."""
    assert [partition_of(group_id, count) for count in (1, 4, 50, 2**31)] == [
        0,
        code % 4,
        code % 50,
        code,
    ]


def test_every_request_is_refused_by_another_node() -> None:
    """Clients look for the coordinator then."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        world.coordinator.unload(world.coordinator.partition_for(GROUP))
        world.coordinator.unload(world.coordinator.partition_for(GROUP))
        error = ErrorCode.NOT_COORDINATOR
        joining = world.join(leader)
        assert (joining.error, joining.got.member_id) == (error, "")
        assert world.sync(leader, 1).error is error
        assert world.heartbeat(leader, 1) is error
        assert world.leave((leader, None)).error_code == error
        assert world.commit({("t", 0): 1}).got.topics[0].partitions[0].error_code == error
        assert world.fetch(None).error_code == error
        assert world.delete_offsets("t", 0).error is error
        assert world.describe(GROUP)[0].error_code == error
        assert [each.error_code for each in world.delete(GROUP).got.results] == [error]
        assert world.list().groups == []
        assert world.waiting == (0, 0, 0)

    play(scenario)


def test_every_request_is_put_off_while_a_partition_is_loaded() -> None:
    """But heartbeats, which nobody can judge: their senders stay calm."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        partition = world.coordinator.partition_for(GROUP)
        world.coordinator.unload(partition)
        world.coordinator.begin_load(partition)
        world.coordinator.begin_load(partition)
        assert partition in world.coordinator.partitions
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert world.join(leader).error is error
        assert world.sync(leader, 1).error is error
        assert world.heartbeat(leader, 1) is ErrorCode.NONE
        assert world.leave((leader, None)).error_code == error
        assert world.commit({("t", 0): 1}).got.topics[0].partitions[0].error_code == error
        assert world.fetch(None).error_code == error
        assert world.describe(GROUP)[0].error_code == error
        assert world.list().error_code == error
        world.coordinator.load(partition, world.log.records[partition])
        assert world.heartbeat(leader, 1) is ErrorCode.NONE
        assert list(world.group.members) == [leader]

    play(scenario)


def test_stable_group_goes_on_under_another_coordinator() -> None:
    """Generation, members, leader, assignments and offsets are the same."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        world.commit({("t", 0): 5}, member_id=leader, generation=2)
        before = world.group
        world.restart()
        after = world.group
        assert after is not before
        assert after.state is GroupState.STABLE
        assert (after.generation, after.leader_id, after.protocol, after.protocol_type) == (
            2,
            leader,
            "range",
            "consumer",
        )
        assert world.heartbeat(follower, 2) is ErrorCode.NONE
        assert world.sync(follower, 2).got.assignment == follower.encode()
        assert world.committed() == {("t", 0): 5}
        again = world.join(leader)
        world.join(follower)
        assert again.got.generation_id == 3

    play(scenario)


def test_sessions_begin_anew_under_another_coordinator() -> None:
    """Members that do not come are removed when they end."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2, session_ms=20_000)
        await ms(15_000)
        world.restart()
        await ms(15_000)
        assert world.heartbeat(leader, 2) is ErrorCode.NONE
        await ms(5_001)
        assert list(world.group.members) == [leader]
        assert follower not in world.group.members

    play(scenario)


def test_what_waits_is_told_that_the_coordinator_has_changed() -> None:
    """Joins, syncs and commits."""

    async def scenario(world: World) -> None:
        ids = world.stable(2)
        joining = world.join(ids[0])
        world.restart()
        assert joining.error is ErrorCode.NOT_COORDINATOR
        world.join(ids[0])
        world.join(ids[1])
        syncing = world.sync(ids[1], 3)
        world.log.is_held = True
        other = world.sync(ids[0], 3, {})
        commit = world.commit({("t", 0): 1}, group_id="other")
        world.restart()
        assert {syncing.error, other.error} == {ErrorCode.NOT_COORDINATOR}
        world.log.release()
        assert commit.got.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR

    play(scenario)


def test_generation_that_was_not_synced_is_lost_with_its_coordinator() -> None:
    """The stored one is in force again, and its members find out."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        world.join(leader)
        world.join(follower)
        world.restart()
        assert world.group.generation == 2
        assert world.sync(leader, 3, {}).error is ErrorCode.ILLEGAL_GENERATION

    play(scenario)


def test_loading_what_is_loaded_changes_nothing() -> None:
    """The groups in memory are newer than their records."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        joining = world.join_with_id()
        partition = world.coordinator.partition_for(GROUP)
        world.coordinator.load(partition, world.log.records[partition])
        assert world.group.state is GroupState.PREPARING_REBALANCE
        world.join(leader)
        assert joining.got.generation_id == 2

    play(scenario)


def test_records_that_cannot_be_read_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """And logged; those of other group protocols are none of this."""

    async def scenario(world: World) -> None:
        world.stable(1)
        partition = world.coordinator.partition_for(GROUP)
        good = world.log.records[partition]
        bad: list[tuple[bytes, bytes | None]] = [
            (b"\0\2", b""),
            (b"\0\1\0\1g", None),
            (b"\0\2\0\1g", b"\0\4"),
            (b"\0\3\0\1g", b"\0\0"),
        ]
        world.log.records[partition] = [*bad[:2], *good, *bad[2:]]
        with caplog.at_level(logging.ERROR):
            world.restart()
        assert caplog.text.count("is left out") == 3
        assert [each.group_id for each in world.coordinator.groups] == [GROUP]

    play(scenario)


def test_closed_coordinator_answers_for_everything() -> None:
    """And has nothing left in its purgatories."""

    async def scenario(world: World) -> None:
        ids = world.stable(2)
        joining = world.join(ids[0])
        world.coordinator.close()
        assert joining.error is ErrorCode.NOT_COORDINATOR
        assert (world.waiting, world.coordinator.partitions, world.coordinator.groups) == (
            (0, 0, 0),
            [],
            [],
        )

    play(scenario)
