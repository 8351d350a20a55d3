"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

import pytest

from request_purgatory.broker.groups import GroupState
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.groups.world import GROUP, World, play


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(version: int) -> None:
    """With their state from version 4 on, and their type from version 5 on."""

    async def scenario(world: World) -> None:
        world.stable(1)
        world.commit({("t", 0): 1}, group_id="simple")
        response = world.list(version=version)
        assert response.error_code == 0
        listed = {each.group_id: each for each in response.groups}
        assert {name: each.protocol_type for name, each in listed.items()} == {
            GROUP: "consumer",
            "simple": "",
        }
        if version >= 4:
            assert (listed[GROUP].group_state, listed["simple"].group_state) == ("Stable", "Empty")
        if version >= 5:
            assert {each.group_type for each in listed.values()} == {"classic"}

    play(scenario)


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (("Stable",), (), {GROUP}),
        (("stable", "EMPTY"), (), {GROUP, "simple"}),
        (("Dead", "no such"), (), set()),
        ((), ("Classic",), {GROUP, "simple"}),
        ((), ("consumer",), set()),
    ],
)
def test_lists_are_filtered(
    states: tuple[str, ...], types: tuple[str, ...], found: set[str]
) -> None:
    """By state and type, in whatever case."""

    async def scenario(world: World) -> None:
        world.stable(1)
        world.commit({("t", 0): 1}, group_id="simple")
        assert {each.group_id for each in world.list(states, types).groups} == found

    play(scenario)


@pytest.mark.parametrize("version", range(7))
def test_stable_group_is_described(version: int) -> None:
    """With what its members want and have."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        world.join(instance_id="i")
        world.join(leader)
        ids = list(world.group.members)
        world.synced(ids, 2)
        (group,) = world.describe(GROUP, version=version)
        assert (group.error_code, group.group_id, group.group_state) == (0, GROUP, "Stable")
        assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
        members = [
            (
                each.member_id,
                each.client_id,
                each.client_host,
                each.member_metadata,
                each.member_assignment,
            )
            for each in group.members
        ]
        assert members == [(each, "app", "/127.0.0.1", b"r", each.encode()) for each in ids]
        if version >= 4:
            assert [each.group_instance_id for each in group.members] == [None, "i"]
        if version >= 3:
            assert group.authorized_operations is None

    play(scenario)


def test_group_that_rebalances_is_described_without_metadata() -> None:
    """Its members have not agreed on a protocol."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        world.join_with_id()
        (group,) = world.describe(GROUP, operations=True)
        assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
        assert [each.member_metadata for each in group.members] == [b"", b""]
        assert group.members[0].member_assignment == leader.encode()
        assert group.authorized_operations == {3, 6, 8, 10, 11}

    play(scenario)


def test_group_is_told_of_when_it_is_stored() -> None:
    """Though its members are answered before."""

    async def scenario(world: World) -> None:
        world.log.is_held = True
        assert world.join_with_id().got.generation_id == 1
        assert world.list().groups == []
        assert world.describe(GROUP)[0].group_state == "Dead"
        world.log.release()
        assert [each.group_state for each in world.list().groups] == ["CompletingRebalance"]
        assert world.describe(GROUP)[0].group_state == "CompletingRebalance"

    play(scenario)


@pytest.mark.parametrize("version", range(7))
def test_group_that_is_not_there_is_dead(version: int) -> None:
    """From version 6 on that is an error."""

    async def scenario(world: World) -> None:
        first, second = world.describe("a", "b", version=version)
        assert (first.group_id, second.group_id) == ("a", "b")
        assert first.group_state == "Dead"
        assert first.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        assert first.error_message == ("Group a not found." if version >= 6 else None)

    play(scenario)


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_with_their_offsets(version: int) -> None:
    """Those without members; each is told what became of it."""

    async def scenario(world: World) -> None:
        world.stable(1)
        for group_id in ("a", "b", "c", "d"):
            world.commit({("t", 0): 1, ("u", 5): 2}, group_id=group_id)
        answer = world.delete("a", GROUP, "no such", "b", "a", "c", version=version)
        assert {each.group_id: each.error_code for each in answer.got.results} == {
            "a": 0,
            "b": 0,
            "c": 0,
            GROUP: ErrorCode.NON_EMPTY_GROUP,
            "no such": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        for _ in range(2):
            assert {each.group_id for each in world.list().groups} == {GROUP, "d"}
            assert world.committed(group_id="a") == {}
            assert world.committed(group_id="d") == {("t", 0): 1, ("u", 5): 2}
            world.restart()

    play(scenario)


def test_group_that_had_members_is_deleted() -> None:
    """And with it the ids that were given out."""

    async def scenario(world: World) -> None:
        (leader,) = world.stable(1)
        world.leave((leader, None))
        given = world.join()
        assert world.delete(GROUP).got.results[0].error_code == 0
        assert world.waiting == (0, 0, 0)
        assert world.join(given.got.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID
        assert world.join_with_id().got.generation_id == 1

    play(scenario)


def test_group_is_there_until_its_deletion_is_replicated() -> None:
    """Where it can't be, the error is told."""

    async def scenario(world: World) -> None:
        world.commit({("t", 0): 1})
        world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert world.delete(GROUP).got.results[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.committed() == {("t", 0): 1}
        world.log.error = ErrorCode.NONE
        world.log.is_held = True
        answer = world.delete(GROUP)
        assert not answer.is_here
        world.log.release()
        assert answer.got.results[0].error_code == 0
        assert world.coordinator.groups == []

    play(scenario)


def test_group_that_is_joined_during_its_deletion_is_a_new_one_of_that_name() -> None:
    """Its offsets are gone, its members stay."""

    async def scenario(world: World) -> None:
        world.commit({("t", 0): 1})
        world.log.is_held = True
        answer = world.delete(GROUP)
        joined = world.join_with_id()
        world.log.release()
        assert answer.got.results[0].error_code == 0
        assert world.group.state is GroupState.COMPLETING_REBALANCE
        assert world.committed() == {}
        world.log.is_held = False
        world.sync(joined.got.member_id, 1, {})
        world.restart()
        assert list(world.group.members) == [joined.got.member_id]

    play(scenario)


def test_nothing_to_delete_is_answered() -> None:
    """At once."""

    async def scenario(world: World) -> None:
        assert world.delete().got.results == []

    play(scenario)
