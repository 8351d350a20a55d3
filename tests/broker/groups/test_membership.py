"""SyncGroup, Heartbeat and LeaveGroup, and members that fail."""

from __future__ import annotations

import pytest

from request_purgatory.broker.groups import GroupState
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.groups.world import World, ms, play

# -- SyncGroup


@pytest.mark.parametrize("version", range(6))
def test_members_get_what_the_leader_assigns(version: int) -> None:
    """Those who asked before it, and those who ask later; nothing to whom it left out."""

    async def scenario(world: World) -> None:
        ids = world.stable(3)
        joined = [world.join(each) for each in ids]
        assert [each.got.generation_id for each in joined] == [4, 4, 4]
        early = world.sync(ids[1], 4, version=version)
        assert not early.is_here
        leader = world.sync(ids[0], 4, {ids[0]: b"zero", ids[1]: b"one"}, version=version)
        late = world.sync(ids[2], 4, version=version)
        assert [each.got.assignment for each in (leader, early, late)] == [b"zero", b"one", b""]
        if version >= 5:
            assert (early.got.protocol_type, early.got.protocol_name) == ("consumer", "range")
        assert world.group.state is GroupState.STABLE
        assert world.waiting == (0, 0, 3)

    play(scenario)


@pytest.mark.parametrize(
    ("member", "generation", "options", "error"),
    [
        (0, 1, {"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        (0, 1, {"group_id": "no such"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 1, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        (0, 2, {}, ErrorCode.ILLEGAL_GENERATION),
        (0, 0, {}, ErrorCode.ILLEGAL_GENERATION),
        (0, 1, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (0, 1, {"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (0, 1, {"protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (0, 1, {"protocol_name": None, "protocol_type": None, "version": 4}, ErrorCode.NONE),
        (0, 1, {"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_sync_that_is_refused(
    member: int | None, generation: int, options: dict[str, str], error: ErrorCode
) -> None:
    """By the name of what is wrong with it."""

    async def scenario(world: World) -> None:
        ids = world.stable(1)
        assert (
            world.sync("stranger" if member is None else ids[member], generation, **options).error
            is error
        )  # type: ignore[arg-type]

    play(scenario)


def test_sync_during_a_rebalance_is_told_of_it() -> None:
    """It would be of no use."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        world.join(leader)
        assert world.sync(follower, 2).error is ErrorCode.REBALANCE_IN_PROGRESS

    play(scenario)


def test_members_that_do_not_sync_in_time_are_removed() -> None:
    """The others are told to join again, if they wait, or when they send their heartbeat."""

    async def scenario(world: World) -> None:
        ids = world.stable(3, session_ms=100_000, rebalance_ms=30_000)
        for each in ids:
            world.join(each, session_ms=100_000, rebalance_ms=30_000)
        waiting = world.sync(ids[1], 4)
        await ms(29_998)
        assert not waiting.is_here
        await ms(3)
        assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
        assert list(world.group.members) == [ids[1]]
        assert world.join(ids[1]).got.generation_id == 5

    play(scenario)


def test_stable_group_removes_followers_that_never_ask_for_their_assignment() -> None:
    """Though they send heartbeats."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2, rebalance_ms=30_000)
        world.join(leader, rebalance_ms=30_000)
        world.join(follower, rebalance_ms=30_000)
        world.sync(leader, 3, {leader: b"all"})
        assert world.group.state is GroupState.STABLE
        for _ in range(6):
            assert {world.heartbeat(leader, 3), world.heartbeat(follower, 3)} == {ErrorCode.NONE}
            await ms(5_001)
        assert world.heartbeat(follower, 3) is ErrorCode.UNKNOWN_MEMBER_ID
        assert world.heartbeat(leader, 3) is ErrorCode.REBALANCE_IN_PROGRESS

    play(scenario)


def test_sync_that_is_sent_again_ends_the_one_that_waits() -> None:
    """Each gets one answer."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        world.join(leader)
        world.join(follower)
        first = world.sync(follower, 3)
        second = world.sync(follower, 3)
        assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
        world.sync(leader, 3, {follower: b"f"})
        assert second.got.assignment == b"f"

    play(scenario)


def test_assignment_is_told_when_it_is_replicated() -> None:
    """Not before."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        world.join(leader)
        world.join(follower)
        world.log.is_held = True
        answers = world.synced([leader, follower], 3)
        assert not any(each.is_here for each in answers)
        assert world.group.state is GroupState.COMPLETING_REBALANCE
        world.log.release()
        assert [each.got.assignment for each in answers] == [follower.encode(), leader.encode()]

    play(scenario)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_assignment_that_cannot_be_stored_is_told_to_nobody(
    error: ErrorCode, told: ErrorCode
) -> None:
    """Those who wait for it get an error, and the group begins anew."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        world.join(leader)
        world.join(follower)
        world.log.error = error
        answers = world.synced([leader, follower], 3)
        assert [each.error for each in answers] == [told, told]
        assert answers[0].got.assignment == b""
        assert world.group.state is GroupState.PREPARING_REBALANCE
        world.log.error = ErrorCode.NONE
        assert world.join(leader).is_here is False
        assert world.join(follower).got.generation_id == 4

    play(scenario)


def test_log_that_raises_is_an_error_too() -> None:
    """Nobody waits for ever."""

    async def scenario(world: World) -> None:
        joined = world.join_with_id()
        world.log.failure = RuntimeError("no disk")
        assert world.sync(joined.got.member_id, 1, {}).error is ErrorCode.UNKNOWN_SERVER_ERROR

    play(scenario)


def test_assignment_that_is_overtaken_by_a_rebalance_has_no_effect() -> None:
    """When its record is replicated in the end."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        world.join(leader)
        world.log.is_held = True
        waiting = world.sync(leader, 2, {leader: b"old"})
        joined = world.join_with_id()
        assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
        world.log.release()
        assert world.group.state is GroupState.PREPARING_REBALANCE
        world.join(leader)
        assert joined.got.generation_id == 3
        assert world.group.members[leader].assignment == b""

    play(scenario)


def test_answer_that_calls_the_coordinator_again_finds_it_whole() -> None:
    """And is itself not called in the middle of another's change."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        joined = [world.join(leader)]
        inner: list[ErrorCode] = []
        original = joined[0].__class__.__call__

        def called(self: object, response: object) -> None:
            original(self, response)  # type: ignore[arg-type]
            world.coordinator.check()
            inner.append(world.heartbeat(leader, 3))

        joined[0].__class__.__call__ = called  # type: ignore[method-assign]
        try:
            last = world.join(follower)
        finally:
            joined[0].__class__.__call__ = original  # type: ignore[method-assign]
        assert inner == [ErrorCode.NONE, ErrorCode.NONE]
        assert last.got.generation_id == joined[0].got.generation_id == 3

    play(scenario)


# -- Heartbeat


@pytest.mark.parametrize("version", range(5))
def test_heartbeats_keep_a_member(version: int) -> None:
    """Whose session ends without them, never early and not late."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        for _ in range(5):
            await ms(9_990)
            assert world.heartbeat(leader, 1, version=version) is ErrorCode.NONE
        await ms(9_998)
        assert leader in world.group.members
        await ms(3)
        assert world.group.members == {}
        assert (world.group.state, world.group.generation) == (GroupState.EMPTY, 2)
        assert world.heartbeat(leader, 1, version=version) is ErrorCode.UNKNOWN_MEMBER_ID

    play(scenario)


def test_heartbeat_that_is_refused() -> None:
    """By the name of what is wrong with it."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        assert world.heartbeat(leader, 1, group_id="") is ErrorCode.INVALID_GROUP_ID
        assert world.heartbeat(leader, 1, group_id="no such") is ErrorCode.UNKNOWN_MEMBER_ID
        assert world.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert world.heartbeat(leader, 0) is ErrorCode.ILLEGAL_GENERATION
        assert world.heartbeat(leader, 1, instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID

    play(scenario)


def test_heartbeats_are_heard_between_join_and_sync() -> None:
    """Consumers send them as soon as they know their generation."""

    async def scenario(world: World) -> None:
        joined = world.join_with_id()
        assert world.group.state is GroupState.COMPLETING_REBALANCE
        assert world.heartbeat(joined.got.member_id, 1) is ErrorCode.NONE

    play(scenario)


def test_member_that_waits_for_others_needs_no_heartbeats() -> None:
    """Neither in JoinGroup nor in SyncGroup; but as soon as it is answered, it does."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2, session_ms=10_000, rebalance_ms=100_000)
        again = world.join(leader, rebalance_ms=100_000)
        for _ in range(10):
            await ms(5_000)
            assert world.heartbeat(follower, 2) is ErrorCode.REBALANCE_IN_PROGRESS
        assert not again.is_here
        world.join(follower, rebalance_ms=100_000)
        assert again.got.generation_id == 3
        waiting = world.sync(follower, 3)
        for _ in range(10):
            await ms(5_000)
            assert world.heartbeat(leader, 3) is ErrorCode.NONE
        assert not waiting.is_here
        world.sync(leader, 3, {})
        assert waiting.error is ErrorCode.NONE
        await ms(10_001)
        assert world.group.members == {}

    play(scenario)


def test_failed_follower_makes_the_others_rebalance() -> None:
    """At the end of its session."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        await ms(9_000)
        assert world.heartbeat(leader, 2) is ErrorCode.NONE
        await ms(1_001)
        assert list(world.group.members) == [leader]
        assert world.heartbeat(follower, 2) is ErrorCode.UNKNOWN_MEMBER_ID
        assert world.heartbeat(leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS
        assert world.join(leader).got.generation_id == 3

    play(scenario)


def test_leader_that_fails_while_others_wait_for_its_assignment() -> None:
    """They are told to join again, and one of them leads."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        world.join(leader)
        world.join(follower)
        waiting = world.sync(follower, 3)
        await ms(9_998)
        assert not waiting.is_here
        await ms(3)
        assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
        again = world.join(follower)
        assert (again.got.leader, again.got.generation_id) == (follower, 4)

    play(scenario)


# -- LeaveGroup


@pytest.mark.parametrize("version", range(6))
def test_member_that_leaves_is_gone_at_once(version: int) -> None:
    """Up to version 2 its error is that of the response."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        response = world.leave((leader, None), version=version)
        assert response.error_code == 0
        if version >= 3:
            assert [(each.member_id, each.error_code) for each in response.members] == [(leader, 0)]
        assert list(world.group.members) == [follower]
        assert world.heartbeat(follower, 2) is ErrorCode.REBALANCE_IN_PROGRESS
        response = world.leave((leader, None), version=version)
        error = response.members[0].error_code if version >= 3 else response.error_code
        assert error == ErrorCode.UNKNOWN_MEMBER_ID
        assert response.error_code == (0 if version >= 3 else ErrorCode.UNKNOWN_MEMBER_ID)

    play(scenario)


def test_last_member_leaves_an_empty_group_of_the_next_generation() -> None:
    """Which is stored, so that no coordinator takes it for stable."""

    async def scenario(world: World) -> None:
        ids = world.stable(2)
        assert [
            each.error_code for each in world.leave(*((each, None) for each in ids)).members
        ] == [0, 0]
        assert (world.group.state, world.group.generation, world.group.leader_id) == (
            GroupState.EMPTY,
            3,
            None,
        )
        assert world.waiting == (0, 0, 0)
        world.restart()
        assert (world.group.state, world.group.generation) == (GroupState.EMPTY, 3)
        assert world.join_with_id().got.generation_id == 4

    play(scenario)


def test_empty_group_that_cannot_be_stored_is_empty_all_the_same() -> None:
    """Members of the stored generation would not send heartbeats."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        world.leave((leader, None))
        assert world.group.state is GroupState.EMPTY

    play(scenario)


def test_leaving_ends_what_the_member_waits_for() -> None:
    """With an error that lets a client that is alive join anew."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        joining = world.join(leader)
        world.leave((leader, None))
        assert joining.error is ErrorCode.UNKNOWN_MEMBER_ID
        again = world.join(follower)
        assert again.got.generation_id == 3
        other = world.join_with_id()
        again = world.join(follower)
        assert other.got.generation_id == 4
        syncing = world.sync(other.got.member_id, 4)
        world.leave((other.got.member_id, None))
        assert syncing.error is ErrorCode.UNKNOWN_MEMBER_ID

    play(scenario)


def test_leaving_of_the_last_one_that_was_waited_for_ends_the_rebalance() -> None:
    """At once."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        joining = world.join(leader)
        world.leave((follower, None))
        assert joining.got.generation_id == 3

    play(scenario)


def test_id_that_was_given_out_can_be_given_back() -> None:
    """And nobody waits for it any more."""

    async def scenario(world: World) -> None:
        given = world.join()
        assert world.leave((given.got.member_id, None)).members[0].error_code == 0
        assert world.waiting == (0, 0, 0)
        assert world.join(given.got.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID

    play(scenario)


def test_leave_that_is_refused() -> None:
    """As a whole for its group, or by member."""

    async def scenario(world: World) -> None:
        assert world.leave(("m", None), group_id="").error_code == ErrorCode.INVALID_GROUP_ID
        assert world.leave(("m", None)).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.leave(("m", None), version=0).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        ids = world.stable(1)
        response = world.leave(("", None), ("", "i"), ("stranger", None), (ids[0], None))
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert [each.error_code for each in response.members] == [unknown, unknown, unknown, 0]

    play(scenario)
