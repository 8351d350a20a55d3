"""JoinGroup: who is taken in, and when they are answered."""

from __future__ import annotations

import pytest

from request_purgatory.broker.groups import GroupState
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.groups.world import GROUP, World, ms, play

BOTH = (("range", b"r"), ("roundrobin", b"rr"))


def test_dynamic_member_is_given_an_id_and_comes_back_with_it() -> None:
    """Then it leads the first generation, and is told of itself as its only member."""

    async def scenario(world: World) -> None:
        first = world.join()
        assert (first.error, first.got.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
        assert first.got.member_id.startswith("app-")
        assert world.group.state is GroupState.EMPTY
        got = world.join(first.got.member_id).got
        assert (got.error_code, got.generation_id, got.leader, got.member_id) == (
            0,
            1,
            got.member_id,
            first.got.member_id,
        )
        assert (got.protocol_type, got.protocol_name, got.skip_assignment) == (
            "consumer",
            "range",
            False,
        )
        assert [(each.member_id, each.metadata) for each in got.members] == [(got.member_id, b"r")]
        assert world.group.state is GroupState.COMPLETING_REBALANCE

    play(scenario)


@pytest.mark.parametrize("version", range(10))
def test_every_version_joins(version: int) -> None:
    """Those up to 3 in one step."""

    async def scenario(world: World) -> None:
        joined = world.join(version=version) if version < 4 else world.join_with_id(version=version)
        assert (joined.error, joined.got.generation_id) == (ErrorCode.NONE, 1)
        assert [each.metadata for each in joined.got.members] == [b"r"]
        other = world.join(version=version, protocol_type="connect")
        assert (other.error, other.got.protocol_name) == (
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            None if version >= 7 else "",
        )

    play(scenario)


def test_version_0_has_its_session_timeout_for_rebalances() -> None:
    """It can't say another one."""

    async def scenario(world: World) -> None:
        world.join(version=0, session_ms=7_000)
        assert world.group.rebalance_timeout_ms == 7_000

    play(scenario)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_requests_that_no_group_accepts(options: dict[str, object], error: ErrorCode) -> None:
    """Each is answered at once, with the member id that it came with."""

    async def scenario(world: World) -> None:
        answer = world.join(**options)  # type: ignore[arg-type]
        assert (answer.error, answer.got.member_id) == (error, options.get("member_id", ""))

    play(scenario)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("sticky", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger", "instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_requests_that_do_not_fit_a_group(options: dict[str, object], error: ErrorCode) -> None:
    """They leave it as it was."""

    async def scenario(world: World) -> None:
        world.stable(1)
        assert world.join(**options).error is error  # type: ignore[arg-type]
        assert (world.group.state, world.group.generation) == (GroupState.STABLE, 1)

    play(scenario)


def test_second_member_makes_the_first_one_join_again() -> None:
    """Both get the next generation; only the leader is told who is in it."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        joined = world.join_with_id()
        assert not joined.is_here
        assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        again = world.join(leader)
        assert (again.got.generation_id, joined.got.generation_id) == (2, 2)
        assert {each.member_id for each in again.got.members} == {leader, joined.got.member_id}
        assert joined.got.members == []
        assert again.got.leader == joined.got.leader == leader

    play(scenario)


def test_initial_delay_lets_members_come_together() -> None:
    """It is extended while they keep coming."""

    async def scenario(world: World) -> None:
        first = world.join_with_id()
        await ms(2_000)
        second = world.join_with_id()
        await ms(1_001)
        assert not first.is_here
        await ms(2_500)
        third = world.join_with_id()
        await ms(500)
        assert not first.is_here, (
            "extended by the second member until 6,000, and then by the third one"
        )
        await ms(3_001)
        assert [each.got.generation_id for each in (first, second, third)] == [1, 1, 1]
        assert len(first.got.members) == 3

    play(scenario, group_initial_rebalance_delay_ms=3_000)


def test_initial_delay_is_not_extended_when_nobody_comes() -> None:
    """Never early, and not late."""

    async def scenario(world: World) -> None:
        first = world.join_with_id()
        await ms(2_998)
        assert not first.is_here
        await ms(3)
        assert first.got.generation_id == 1

    play(scenario, group_initial_rebalance_delay_ms=3_000)


def test_initial_delay_ends_with_the_rebalance_timeout() -> None:
    """Though members keep coming."""

    async def scenario(world: World) -> None:
        answers = []
        for _ in range(9):
            answers.append(world.join_with_id(rebalance_ms=8_000))
            await ms(990)
        assert answers[0].is_here
        assert len(answers[0].got.members) == 9

    play(scenario, group_initial_rebalance_delay_ms=3_000)


def test_members_that_do_not_join_in_time_are_removed() -> None:
    """And with them their heartbeats."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2, session_ms=200_000)
        again = world.join(leader, session_ms=200_000)
        await ms(59_998)
        assert not again.is_here
        await ms(3)
        assert [each.member_id for each in again.got.members] == [leader]
        assert again.got.generation_id == 3
        assert world.heartbeat(follower, 2) is ErrorCode.UNKNOWN_MEMBER_ID
        assert world.waiting == (0, 1, 1)

    play(scenario)


def test_leader_that_does_not_join_in_time_is_followed_by_one_that_did() -> None:
    """Who is told of the members."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2, session_ms=200_000)
        again = world.join(follower, protocols=(("range", b"new"),), session_ms=200_000)
        await ms(60_001)
        assert again.got.leader == follower
        assert [(each.member_id, each.metadata) for each in again.got.members] == [
            (follower, b"new")
        ]
        assert world.join(leader).error is ErrorCode.UNKNOWN_MEMBER_ID

    play(scenario)


def test_rebalance_waits_for_those_who_were_given_an_id() -> None:
    """Until they come, or their session ends."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        given = world.join(session_ms=20_000)
        again = world.join(leader, session_ms=30_000)
        assert not again.is_here
        await ms(20_001)
        assert [each.member_id for each in again.got.members] == [leader]
        assert world.join(given.got.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID

    play(scenario)


def test_id_that_was_given_out_expires() -> None:
    """After the session timeout it is unknown."""

    async def scenario(world: World) -> None:
        given = world.join(session_ms=10_000)
        assert world.waiting == (0, 0, 1)
        await ms(10_001)
        assert world.waiting == (0, 0, 0)
        assert world.join(given.got.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID

    play(scenario)


def test_new_member_that_waits_too_long_must_come_again() -> None:
    """Its connection may have ended long ago."""

    async def scenario(world: World) -> None:
        world.stable(1, session_ms=1_800_000, rebalance_ms=1_000_000)
        joined = world.join_with_id(rebalance_ms=1_000_000)
        await ms(299_998)
        assert not joined.is_here
        await ms(3)
        assert joined.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert len(world.group.members) == 1

    play(scenario)


def test_protocol_with_most_votes_is_chosen() -> None:
    """Of those that all support, each member votes for the one that it names first."""

    async def scenario(world: World) -> None:
        first = world.join_with_id(protocols=(("c", b"c1"), ("a", b"a1"), ("b", b"b1")))
        second = world.join_with_id(protocols=(("b", b"b2"), ("a", b"a2")))
        third = world.join_with_id(protocols=(("b", b"b3"), ("a", b"a3")))
        await ms(9_001)
        assert {each.got.protocol_name for each in (first, second, third)} == {"b"}
        assert sorted(each.metadata for each in first.got.members) == [b"b1", b"b2", b"b3"]

    play(scenario, group_initial_rebalance_delay_ms=3_000)


def test_member_whose_answer_was_lost_is_told_again() -> None:
    """The same generation, as long as it wants the same."""

    async def scenario(world: World) -> None:
        joined = world.join_with_id()
        again = world.join(joined.got.member_id)
        assert again.got == joined.got
        assert world.group.state is GroupState.COMPLETING_REBALANCE

    play(scenario)


def test_follower_that_joins_a_stable_group_again_is_told_its_generation() -> None:
    """A rebalance is for those who want something else, and for the leader."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        again = world.join(follower)
        assert (again.got.generation_id, again.got.leader, again.got.members) == (2, leader, [])
        assert world.group.state is GroupState.STABLE
        changed = world.join(follower, protocols=BOTH)
        assert not changed.is_here
        assert world.join(leader).got.generation_id == changed.got.generation_id == 3

    play(scenario)


def test_leader_that_joins_a_stable_group_again_makes_it_rebalance() -> None:
    """What it reads may have changed."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        again = world.join(leader)
        assert not again.is_here
        assert world.group.state is GroupState.PREPARING_REBALANCE
        world.join(follower)
        assert again.got.generation_id == 3

    play(scenario)


def test_changed_wishes_while_the_group_syncs_make_it_rebalance() -> None:
    """Those who wait for their assignment are told to join again."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        again = [world.join(leader), world.join(follower)]
        assert again[0].got.generation_id == 3
        waiting = world.sync(follower, 3)
        assert not waiting.is_here
        changed = world.join(leader, protocols=BOTH)
        assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
        assert not changed.is_here
        world.join(follower)
        assert changed.got.generation_id == 4

    play(scenario)


def test_request_that_is_sent_again_ends_the_one_that_waits() -> None:
    """Each gets one answer."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        first = world.join(leader)
        second = world.join(leader)
        assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
        assert not second.is_here
        world.join(follower)
        assert second.got.generation_id == 3

    play(scenario)


def test_full_group_turns_new_members_away() -> None:
    """Those who are in it stay."""

    async def scenario(world: World) -> None:
        leader, follower = world.stable(2)
        answer = world.join()
        assert (answer.error, answer.got.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert world.join(follower).error is ErrorCode.NONE
        again = world.join(leader)
        assert not again.is_here
        rest = world.join(follower)
        assert again.got.generation_id == rest.got.generation_id == 3

    play(scenario, group_max_size=2)


def test_group_that_was_too_large_sheds_its_last_members() -> None:
    """Those who come back after it is full."""

    async def scenario(world: World) -> None:
        ids = world.stable(3)
        object.__setattr__(world.settings, "group_max_size", 2)
        world.restart()
        assert world.group.state is GroupState.PREPARING_REBALANCE
        answers = [world.join(each) for each in ids]
        assert answers[2].error is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert [each.got.generation_id for each in answers[:2]] == [4, 4]

    play(scenario)


def test_new_group_that_cannot_be_stored_is_none() -> None:
    """Who waits for it is told why, and it is gone."""

    async def scenario(world: World) -> None:
        world.log.is_held = True
        world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        given = world.join()
        joined = world.join(given.got.member_id)
        assert world.group.state is GroupState.PREPARING_REBALANCE
        world.log.release()
        assert joined.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.coordinator.groups == []
        assert world.waiting == (0, 0, 0)

    play(scenario, group_initial_rebalance_delay_ms=3_000)


def test_id_of_a_dynamic_member_is_no_static_one() -> None:
    """Kafka answers this with an unknown error, too."""

    async def scenario(world: World) -> None:
        given = world.join()
        assert (
            world.join(given.got.member_id, instance_id="i").error is ErrorCode.UNKNOWN_SERVER_ERROR
        )
        assert world.group.group_id == GROUP

    play(scenario)
