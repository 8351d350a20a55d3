"""Committed offsets."""

from __future__ import annotations

import asyncio

import pytest

from request_purgatory.broker.groups import GroupState
from request_purgatory.broker.groups.records import OffsetKey, decode_key, decode_offset
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.groups.world import GROUP, Answer, World, ms, play

MARK = {("t", 0): 7, ("t", 3): 9, ("u", 1): 0}


def errors(answer: Answer) -> set[ErrorCode]:
    """Of all partitions."""
    return {ErrorCode(each.error_code) for topic in answer.got.topics for each in topic.partitions}


@pytest.mark.parametrize("version", range(2, 10))
def test_what_is_committed_can_be_fetched(version: int) -> None:
    """With its metadata, and from version 6 on its leader's epoch."""

    async def scenario(world: World) -> None:
        assert errors(world.commit(MARK, version=version)) == {ErrorCode.NONE}
        assert world.committed() == MARK
        (topic,) = world.fetch({"t": [3, 4]}).topics
        there, missing = topic.partitions
        epoch = 3 if version >= 6 else -1
        assert (there.committed_offset, there.metadata, there.committed_leader_epoch) == (
            9,
            "note",
            epoch,
        )
        assert (
            missing.committed_offset,
            missing.metadata,
            missing.committed_leader_epoch,
            missing.error_code,
        ) == (-1, "", -1, 0)

    play(scenario)


@pytest.mark.parametrize("version", range(1, 10))
def test_every_version_fetches(version: int) -> None:
    """From version 2 on, without saying what."""

    async def scenario(world: World) -> None:
        world.commit(MARK)
        response = world.fetch({"t": [0], "no such": [1]}, version=version)
        assert [
            [each.committed_offset for each in topic.partitions] for topic in response.topics
        ] == [[7], [-1]]
        if version >= 5:
            assert response.topics[0].partitions[0].committed_leader_epoch == 3
        if version >= 2:
            assert world.committed(version=version) == MARK
        world.coordinator.unload(world.coordinator.partition_for(GROUP))
        response = world.fetch({"t": [0]}, version=version)
        if version == 1:
            assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        else:
            assert (response.error_code, response.topics) == (ErrorCode.NOT_COORDINATOR, [])

    play(scenario)


def test_group_that_is_not_there_has_committed_nothing() -> None:
    """Which is no error."""

    async def scenario(world: World) -> None:
        assert world.fetch(None).topics == []
        assert world.fetch({"t": [0]}).topics[0].partitions[0].committed_offset == -1

    play(scenario)


def test_null_metadata_is_empty() -> None:
    """As it is stored."""

    async def scenario(world: World) -> None:
        world.commit({("t", 0): 1}, metadata=None)
        assert world.fetch({"t": [0]}).topics[0].partitions[0].metadata == ""

    play(scenario)


def test_metadata_may_be_so_long() -> None:
    """What is longer is refused, the other partitions are not."""

    async def scenario(world: World) -> None:
        assert errors(world.commit({("t", 0): 1}, metadata="x" * 4_096)) == {ErrorCode.NONE}
        assert errors(world.commit({("t", 0): 1}, metadata="ä" * 4_096)) == {ErrorCode.NONE}, (
            "characters, not bytes"
        )
        for long in ("x" * 4_097, "\U0001f600" * 2_049):
            assert errors(world.commit({("t", 0): 2}, metadata=long)) == {
                ErrorCode.OFFSET_METADATA_TOO_LARGE
            }
        assert world.committed() == {("t", 0): 1}

    play(scenario)


def test_commit_is_visible_when_it_is_replicated() -> None:
    """And answered then."""

    async def scenario(world: World) -> None:
        world.log.is_held = True
        answer = world.commit(MARK)
        assert not answer.is_here
        assert world.committed() == {}
        world.log.release()
        assert errors(answer) == {ErrorCode.NONE}
        assert world.committed() == MARK

    play(scenario)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_commit_that_cannot_be_stored_is_none(error: ErrorCode, told: ErrorCode) -> None:
    """Nor does it make a group."""

    async def scenario(world: World) -> None:
        world.log.error = error
        assert errors(world.commit(MARK)) == {told}
        assert world.committed() == {}
        assert world.coordinator.groups == []

    play(scenario)


def test_text_that_no_record_can_hold_is_an_error() -> None:
    """The client's request had room for it."""

    async def scenario(world: World) -> None:
        assert errors(world.commit({("t" * 40_000, 0): 1})) == {ErrorCode.UNKNOWN_SERVER_ERROR}

    play(scenario)


def test_consumer_without_a_group_commits() -> None:
    """To a group that is not there, or has no members."""

    async def scenario(world: World) -> None:
        world.commit({("t", 0): 1})
        assert (world.group.state, world.group.protocol_type) == (GroupState.EMPTY, None)
        (leader,) = world.stable(1)
        assert errors(world.commit({("t", 0): 2})) == {ErrorCode.UNKNOWN_MEMBER_ID}
        world.leave((leader, None))
        assert errors(world.commit({("t", 0): 3})) == {ErrorCode.NONE}
        assert errors(world.commit({("t", 0): 4}, group_id="")) == {ErrorCode.NONE}, (
            "as old clients do"
        )
        assert world.committed() == {("t", 0): 3}

    play(scenario)


def test_member_commits_in_its_generation() -> None:
    """And is alive by that."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        for offset in range(4):
            await ms(6_000)
            world.heartbeat(follower, 2)
            assert errors(world.commit({("t", 0): offset}, member_id=leader, generation=2)) == {
                ErrorCode.NONE
            }
        assert leader in world.group.members
        assert errors(world.commit(MARK, member_id=leader, generation=1)) == {
            ErrorCode.ILLEGAL_GENERATION
        }
        assert errors(world.commit(MARK, member_id=leader)) == {ErrorCode.ILLEGAL_GENERATION}
        assert errors(world.commit(MARK, member_id="stranger", generation=2)) == {
            ErrorCode.UNKNOWN_MEMBER_ID
        }
        world.join(leader)
        assert errors(world.commit(MARK, member_id=follower, generation=2)) == {ErrorCode.NONE}, (
            "before it joins again"
        )
        world.join(follower)
        assert errors(world.commit(MARK, member_id=leader, generation=2)) == {
            ErrorCode.ILLEGAL_GENERATION
        }
        assert errors(world.commit(MARK, member_id=leader, generation=3)) == {
            ErrorCode.REBALANCE_IN_PROGRESS
        }

    play(scenario)


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_member_of_a_group_that_is_not_there_does_not_commit(
    version: int, error: ErrorCode
) -> None:
    """Its coordinator has changed, or it was deleted."""

    async def scenario(world: World) -> None:
        assert errors(world.commit(MARK, member_id="m", generation=1, version=version)) == {error}

    play(scenario)


def test_retention_time_of_a_request_is_stored() -> None:
    """As the time at which the offset expires; only versions up to 4 have one."""

    async def scenario(world: World) -> None:
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        world.commit({("t", 0): 5}, retention_ms=1_000, version=4)
        key, value = world.log.records[world.coordinator.partition_for(GROUP)][-1]
        assert decode_key(key) == OffsetKey(GROUP, "t", 0)
        assert value is not None
        stored = decode_offset(value)
        assert (stored.offset, stored.commit_timestamp_ms, stored.expire_timestamp_ms) == (
            5,
            now_ms,
            now_ms + 1_000,
        )

    play(scenario)


def test_offsets_of_a_deleted_topic_are_forgotten() -> None:
    """Of all groups, and in the log."""

    async def scenario(world: World) -> None:
        for group_id in ("a", "b", "c", "d"):
            world.commit(MARK, group_id=group_id)
        world.coordinator.forget_topic("t")
        world.coordinator.forget_topic("no such")
        for _ in range(2):
            for group_id in ("a", "b", "c", "d"):
                assert world.committed(group_id=group_id) == {("u", 1): 0}
            world.restart()

    play(scenario)


def test_offsets_of_a_deleted_topic_stay_where_they_cannot_be_removed() -> None:
    """What is fetched is what is stored."""

    async def scenario(world: World) -> None:
        world.commit(MARK)
        world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        world.coordinator.forget_topic("t")
        assert world.committed() == MARK

    play(scenario)


def test_offsets_are_deleted_where_nobody_reads_the_topic() -> None:
    """A consumer's subscription says what it reads."""

    async def scenario(world: World) -> None:
        world.commit(MARK)
        reads_u = (("range", b"\0\0\0\0\0\1\0\1u\xff\xff\xff\xff"),)
        world.stable(1, protocols=reads_u)
        answer = world.delete_offsets("t", 0, 5)
        assert (answer.error, errors(answer)) == (ErrorCode.NONE, {ErrorCode.NONE})
        assert errors(world.delete_offsets("u", 1)) == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
        assert world.committed() == {("t", 3): 9, ("u", 1): 0}
        world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert world.delete_offsets("t", 3).error is ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(scenario)


def test_offset_delete_that_is_refused() -> None:
    """As a whole."""

    async def scenario(world: World) -> None:
        assert world.delete_offsets("t", 0, group_id="").error is ErrorCode.INVALID_GROUP_ID
        assert world.delete_offsets("t", 0).error is ErrorCode.GROUP_ID_NOT_FOUND
        world.join(version=0, protocol_type="connect")
        assert world.delete_offsets("t", 0).error is ErrorCode.NON_EMPTY_GROUP

    play(scenario)


@pytest.mark.parametrize("metadata", [b"", b"r", b"\0\0\0\0\0\1\0\5u"])
def test_subscription_that_cannot_be_read_may_be_to_every_topic(metadata: bytes) -> None:
    """So nothing is deleted."""

    async def scenario(world: World) -> None:
        world.commit(MARK)
        world.stable(1, protocols=(("range", metadata),))
        assert errors(world.delete_offsets("t", 0)) == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}

    play(scenario)
