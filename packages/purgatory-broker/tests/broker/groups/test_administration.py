"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.group import GroupState
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.harness import CoordinatorHarness, run_scenario


@pytest.mark.parametrize("version", range(6))
def test_list_groups_returns_every_group(version: int) -> None:
    """The response has the state since version 4 and the type since version 5."""

    async def scenario(harness: CoordinatorHarness) -> None:
        harness.stable_group(1)
        harness.commit({("t", 0): 1}, group_id="simple")
        response = harness.list_groups(version=version)
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

    run_scenario(scenario)


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
def test_list_groups_filters_by_state_and_type(
    states: tuple[str, ...], types: tuple[str, ...], found: set[str]
) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.stable_group(1)
        harness.commit({("t", 0): 1}, group_id="simple")
        assert {each.group_id for each in harness.list_groups(states, types).groups} == found

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(7))
def test_stable_group_is_described(version: int) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        harness.join(instance_id="i")
        harness.join(leader)
        ids = list(harness.group.members)
        harness.sync_all(ids, 2)
        (group,) = harness.describe_groups(GROUP, version=version)
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
            assert group.authorized_operations == -(2**31)

    run_scenario(scenario)


def test_rebalancing_group_is_described_without_metadata() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        harness.join_with_id()
        (group,) = harness.describe_groups(GROUP, operations=True)
        assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
        assert [each.member_metadata for each in group.members] == [b"", b""]
        assert group.members[0].member_assignment == leader.encode()
        assert group.authorized_operations == sum(1 << bit for bit in (3, 6, 8, 10, 11))

    run_scenario(scenario)


def test_group_is_visible_once_it_is_stored() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.log.is_held = True
        assert harness.join_with_id().response.generation_id == 1
        assert harness.list_groups().groups == []
        assert harness.describe_groups(GROUP)[0].group_state == "Dead"
        harness.log.release()
        assert [each.group_state for each in harness.list_groups().groups] == [
            "CompletingRebalance"
        ]
        assert harness.describe_groups(GROUP)[0].group_state == "CompletingRebalance"

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(7))
def test_unknown_group_is_described_as_dead(version: int) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        first, second = harness.describe_groups("a", "b", version=version)
        assert (first.group_id, second.group_id) == ("a", "b")
        assert first.group_state == "Dead"
        assert first.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        assert first.error_message == ("Group a not found." if version >= 6 else None)

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_with_their_offsets(version: int) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.stable_group(1)
        for group_id in ("a", "b", "c", "d"):
            harness.commit({("t", 0): 1, ("u", 5): 2}, group_id=group_id)
        captured = harness.delete_groups("a", GROUP, "no such", "b", "a", "c", version=version)
        assert {each.group_id: each.error_code for each in captured.response.results} == {
            "a": 0,
            "b": 0,
            "c": 0,
            GROUP: ErrorCode.NON_EMPTY_GROUP,
            "no such": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        for _ in range(2):
            assert {each.group_id for each in harness.list_groups().groups} == {GROUP, "d"}
            assert harness.committed(group_id="a") == {}
            assert harness.committed(group_id="d") == {("t", 0): 1, ("u", 5): 2}
            harness.restart()

    run_scenario(scenario)


def test_group_whose_members_have_left_is_deleted() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        harness.leave((leader, None))
        given = harness.join()
        assert harness.delete_groups(GROUP).response.results[0].error_code == 0
        assert harness.num_pending == (0, 0, 0)
        assert harness.join(given.response.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.join_with_id().response.generation_id == 1

    run_scenario(scenario)


def test_group_exists_until_its_tombstone_is_replicated() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({("t", 0): 1})
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert (
            harness.delete_groups(GROUP).response.results[0].error_code
            == ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
        assert harness.committed() == {("t", 0): 1}
        harness.log.error = ErrorCode.NONE
        harness.log.is_held = True
        captured = harness.delete_groups(GROUP)
        assert not captured.is_done
        harness.log.release()
        assert captured.response.results[0].error_code == 0
        assert harness.coordinator.groups == []

    run_scenario(scenario)


def test_group_joined_during_its_deletion_becomes_a_new_group() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({("t", 0): 1})
        harness.log.is_held = True
        captured = harness.delete_groups(GROUP)
        joined = harness.join_with_id()
        harness.log.release()
        assert captured.response.results[0].error_code == 0
        assert harness.group.state is GroupState.COMPLETING_REBALANCE
        assert harness.committed() == {}
        harness.log.is_held = False
        harness.sync(joined.response.member_id, 1, {})
        harness.restart()
        assert list(harness.group.members) == [joined.response.member_id]

    run_scenario(scenario)


def test_delete_of_no_groups_is_answered_immediately() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        assert harness.delete_groups().response.results == []

    run_scenario(scenario)
