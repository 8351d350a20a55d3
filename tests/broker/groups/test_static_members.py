"""Static members: those that keep their place over restarts."""

from __future__ import annotations

import pytest

from request_purgatory.broker.groups import GroupState
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.groups.world import Answer, World, ms, play

OTHER = (("sticky", b"s"),)


def together(world: World, **options: object) -> list[str]:
    """A stable group of static members `a`, which leads, and `b`; their member ids."""
    leader = world.join(instance_id="a", **options).got.member_id  # type: ignore[arg-type]
    world.synced([leader], 1)
    joined = world.join(instance_id="b", **options)  # type: ignore[arg-type]
    world.join(leader, instance_id="a", **options)  # type: ignore[arg-type]
    ids = [leader, joined.got.member_id]
    world.synced(ids, 2)
    assert world.group.state is GroupState.STABLE
    return ids


def test_static_member_joins_in_one_step() -> None:
    """Its instance id begins its member id."""

    async def scenario(world: World) -> None:
        got = world.join(instance_id="a").got
        assert (got.error_code, got.generation_id) == (0, 1)
        assert got.member_id.startswith("a-")
        assert [each.group_instance_id for each in got.members] == ["a"]

    play(scenario)


def test_follower_that_was_started_again_gets_its_place_without_a_rebalance() -> None:
    """Another member id, and what was assigned to it; its former self is fenced off."""

    async def scenario(world: World) -> None:
        leader, former = together(world)
        back = world.join(instance_id="b")
        got = back.got
        assert (
            got.error_code,
            got.generation_id,
            got.leader,
            got.members,
            got.skip_assignment,
        ) == (0, 2, leader, [], False)
        assert got.member_id != former
        assert world.group.state is GroupState.STABLE
        assert world.sync(got.member_id, 2, instance_id="b").got.assignment == former.encode()
        assert world.heartbeat(leader, 2, instance_id="a") is ErrorCode.NONE
        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert world.heartbeat(former, 2, instance_id="b") is fenced
        assert world.sync(former, 2, instance_id="b").error is fenced
        assert world.join(former, instance_id="b").error is fenced
        assert (
            world.commit({("t", 0): 1}, member_id=former, generation=2, instance_id="b")
            .got.topics[0]
            .partitions[0]
            .error_code
            == fenced
        )
        assert world.leave((former, "b")).members[0].error_code == fenced
        world.restart()
        assert set(world.group.members) == {leader, got.member_id}

    play(scenario)


@pytest.mark.parametrize("version", [5, 8, 9])
def test_leader_that_was_started_again_makes_no_assignment(version: int) -> None:
    """From version 9 on it is told so; earlier ones are told that another leads."""

    async def scenario(world: World) -> None:
        former, follower = together(world)
        got = world.join(instance_id="a", version=version).got
        assert (got.error_code, got.generation_id) == (0, 2)
        assert got.leader == (got.member_id if version >= 9 else former)
        assert got.skip_assignment is (version >= 9)
        assert {each.member_id for each in got.members} == (
            {got.member_id, follower} if version >= 9 else set()
        )
        assert world.group.leader_id == got.member_id
        assert world.sync(got.member_id, 2, instance_id="a").got.assignment == former.encode()

    play(scenario)


def test_changed_protocol_makes_the_group_rebalance() -> None:
    """If it is that of the group."""

    async def scenario(world: World) -> None:
        both = (("range", b"r"), ("sticky", b"s"))
        leader, _ = together(world, protocols=both)
        assert (
            world.join(
                instance_id="b", protocols=(("range", b"other"), ("sticky", b"s"))
            ).got.generation_id
            == 2
        )
        back = world.join(instance_id="b", protocols=OTHER)
        assert not back.is_here
        again = world.join(leader, instance_id="a", protocols=both)
        assert again.got.generation_id == back.got.generation_id == 3
        assert again.got.protocol_name == "sticky"

    play(scenario)


def test_member_that_comes_back_while_the_group_syncs_makes_it_rebalance() -> None:
    """The leader may have assigned something to its former id."""

    async def scenario(world: World) -> None:
        leader, follower = together(world)
        world.join(leader, instance_id="a")
        world.join(follower, instance_id="b", protocols=(("range", b"new"),))
        assert world.group.state is GroupState.COMPLETING_REBALANCE
        waiting = world.sync(follower, 3, instance_id="b")
        back = world.join(instance_id="b")
        assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
        assert not back.is_here
        world.join(leader, instance_id="a")
        assert back.got.generation_id == 4

    play(scenario)


def test_member_that_comes_back_during_a_rebalance_takes_part_in_it() -> None:
    """Its former self is fenced off while it waits."""

    async def scenario(world: World) -> None:
        leader, follower = together(world)
        former = world.join(leader, instance_id="a")
        back = world.join(instance_id="a")
        assert (former.error, former.got.member_id) == (ErrorCode.FENCED_INSTANCE_ID, leader)
        assert not back.is_here
        world.join(follower, instance_id="b")
        assert (back.got.generation_id, back.got.leader) == (3, back.got.member_id)

    play(scenario)


def test_static_members_outlast_a_rebalance_that_they_miss() -> None:
    """Until their session ends."""

    async def scenario(world: World) -> None:
        leader, follower = together(world, session_ms=100_000)
        again = world.join(leader, instance_id="a", session_ms=100_000)
        await ms(60_001)
        assert {each.member_id for each in again.got.members} == {leader, follower}
        world.sync(leader, 3, {follower: b"kept"}, instance_id="a")
        back = world.join(instance_id="b", session_ms=100_000)
        assert back.got.generation_id == 3
        assert world.sync(back.got.member_id, 3, instance_id="b").got.assignment == b"kept"
        for _ in range(4):
            await ms(50_000)
            assert world.heartbeat(leader, 3, instance_id="a") is ErrorCode.NONE
            if world.heartbeat(back.got.member_id, 3, instance_id="b") is not ErrorCode.NONE:
                raise AssertionError

    play(scenario)


def test_group_whose_static_members_all_missed_the_rebalance_waits_on() -> None:
    """Until one comes, or their sessions end."""

    async def scenario(world: World) -> None:
        together(world, session_ms=150_000)
        changed = world.join(instance_id="c", session_ms=150_000)
        world.leave(("", "c"))
        assert changed.error is ErrorCode.UNKNOWN_MEMBER_ID
        await ms(60_001)
        assert (world.group.state, world.group.generation) == (GroupState.PREPARING_REBALANCE, 2)
        await ms(60_000)
        assert world.group.state is GroupState.PREPARING_REBALANCE
        await ms(30_001)
        assert (world.group.state, world.group.members) == (GroupState.EMPTY, {})

    play(scenario)


def test_replacement_is_told_when_it_is_replicated() -> None:
    """Not before; a second one before that ends the first."""

    async def scenario(world: World) -> None:
        together(world)
        world.log.is_held = True
        first = world.join(instance_id="b")
        second = world.join(instance_id="b")
        assert first.error is ErrorCode.FENCED_INSTANCE_ID
        assert not second.is_here
        world.log.release(1)
        assert not second.is_here, "the record of the first one is not that of the second one"
        world.log.release()
        assert second.got.generation_id == 2

    play(scenario)


def test_replacement_that_cannot_be_stored_is_undone() -> None:
    """The former self goes on."""

    async def scenario(world: World) -> None:
        leader, follower = together(world)
        world.log.error = ErrorCode.REQUEST_TIMED_OUT
        back = world.join(instance_id="a", protocols=(("range", b"new"),))
        assert (back.error, back.got.member_id, back.got.leader) == (
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "",
            leader,
        )
        assert set(world.group.members) == {leader, follower}
        assert world.group.leader_id == leader
        assert world.group.members[leader].metadata("range") == b"r"
        assert world.heartbeat(leader, 2, instance_id="a") is ErrorCode.NONE

    play(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
def test_rebalance_during_a_replacement_answers_it(error: ErrorCode) -> None:
    """However its record ends."""

    async def scenario(world: World) -> None:
        leader, _ = together(world)
        world.log.is_held = True
        world.log.error = error
        back = world.join(instance_id="b")
        again = world.join(leader, instance_id="a")
        assert back.got.generation_id == again.got.generation_id == 3
        world.log.release()
        assert len(world.group.members) == 2

    play(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
def test_replacement_that_is_stored_during_a_rebalance_waits_for_it(error: ErrorCode) -> None:
    """Its generation is over."""

    async def scenario(world: World) -> None:
        leader, _ = together(world)
        world.log.is_held = True
        world.log.error = error
        back = world.join(instance_id="b")
        newcomer = world.join(instance_id="c")
        world.log.release()
        assert not back.is_here
        world.join(leader, instance_id="a")
        assert back.got.generation_id == newcomer.got.generation_id == 3

    play(scenario)


def test_session_that_ends_during_a_replacement_is_no_failure() -> None:
    """But it begins anew when the replacement is told."""

    async def scenario(world: World) -> None:
        leader, _ = together(world)
        world.log.is_held = True
        back = world.join(instance_id="b")
        await ms(9_000)
        world.heartbeat(leader, 2, instance_id="a")
        await ms(2_000)
        assert not back.is_here
        world.log.release()
        assert back.error is ErrorCode.NONE
        await ms(7_500)
        world.heartbeat(leader, 2, instance_id="a")
        await ms(2_600)
        assert list(world.group.members) == [leader]

    play(scenario)


def test_administrator_removes_static_members_by_their_instance_id() -> None:
    """Without knowing their member ids."""

    async def scenario(world: World) -> None:
        leader, follower = together(world)
        response = world.leave(("", "b"), ("", "nobody"))
        assert [(each.group_instance_id, each.error_code) for each in response.members] == [
            ("b", 0),
            ("nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ]
        assert list(world.group.members) == [leader]
        assert world.heartbeat(follower, 2, instance_id="b") is ErrorCode.UNKNOWN_MEMBER_ID

    play(scenario)


def test_unknown_instance_ids_are_unknown_members() -> None:
    """For every request that has one."""

    async def scenario(world: World) -> None:
        leader, _ = together(world)
        answers: list[Answer] = [
            world.join(leader, instance_id="c"),
            world.sync(leader, 2, instance_id="c"),
        ]
        assert {each.error for each in answers} == {ErrorCode.UNKNOWN_MEMBER_ID}

    play(scenario)
