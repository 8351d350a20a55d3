"""JoinGroup: new and returning members, and the initial rebalance delay."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.group import GroupState
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.harness import CoordinatorHarness, run_scenario, sleep_ms

BOTH = (("range", b"r"), ("roundrobin", b"rr"))


def test_dynamic_member_joins_with_the_member_id_it_received() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        first = harness.join()
        assert (first.error, first.response.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
        assert first.response.member_id.startswith("app-")
        assert harness.group.state is GroupState.EMPTY
        response = harness.join(first.response.member_id).response
        assert (
            response.error_code,
            response.generation_id,
            response.leader,
            response.member_id,
        ) == (
            0,
            1,
            response.member_id,
            first.response.member_id,
        )
        assert (response.protocol_type, response.protocol_name, response.skip_assignment) == (
            "consumer",
            "range",
            False,
        )
        assert [(each.member_id, each.metadata) for each in response.members] == [
            (response.member_id, b"r")
        ]
        assert harness.group.state is GroupState.COMPLETING_REBALANCE

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(10))
def test_every_version_joins(version: int) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        joined = (
            harness.join(version=version) if version < 4 else harness.join_with_id(version=version)
        )
        assert (joined.error, joined.response.generation_id) == (ErrorCode.NONE, 1)
        assert [each.metadata for each in joined.response.members] == [b"r"]
        other = harness.join(version=version, protocol_type="connect")
        assert (other.error, other.response.protocol_name) == (
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            None if version >= 7 else "",
        )

    run_scenario(scenario)


def test_version_0_uses_session_timeout_as_rebalance_timeout() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.join(version=0, session_ms=7_000)
        assert harness.group.rebalance_timeout_ms == 7_000

    run_scenario(scenario)


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
def test_invalid_join_is_rejected_immediately(options: dict[str, object], error: ErrorCode) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        captured = harness.join(**options)  # type: ignore[arg-type]
        assert (captured.error, captured.response.member_id) == (
            error,
            options.get("member_id", ""),
        )

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("sticky", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger", "instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_join_that_does_not_match_the_group_is_rejected(
    options: dict[str, object], error: ErrorCode
) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.stable_group(1)
        assert harness.join(**options).error is error  # type: ignore[arg-type]
        assert (harness.group.state, harness.group.generation) == (GroupState.STABLE, 1)

    run_scenario(scenario)


def test_second_member_starts_a_rebalance() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        joined = harness.join_with_id()
        assert not joined.is_done
        assert harness.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        again = harness.join(leader)
        assert (again.response.generation_id, joined.response.generation_id) == (2, 2)
        assert {each.member_id for each in again.response.members} == {
            leader,
            joined.response.member_id,
        }
        assert joined.response.members == []
        assert again.response.leader == joined.response.leader == leader

    run_scenario(scenario)


def test_initial_delay_collects_members() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        first = harness.join_with_id()
        await sleep_ms(2_000)
        second = harness.join_with_id()
        await sleep_ms(1_001)
        assert not first.is_done
        await sleep_ms(2_500)
        third = harness.join_with_id()
        await sleep_ms(500)
        assert not first.is_done, (
            "the second member extends the delay to 6,000 ms, the third one further"
        )
        await sleep_ms(3_001)
        assert [each.response.generation_id for each in (first, second, third)] == [1, 1, 1]
        assert len(first.response.members) == 3

    run_scenario(scenario, group_initial_rebalance_delay_ms=3_000)


def test_initial_delay_is_not_extended_without_new_members() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        first = harness.join_with_id()
        await sleep_ms(2_998)
        assert not first.is_done
        await sleep_ms(3)
        assert first.response.generation_id == 1

    run_scenario(scenario, group_initial_rebalance_delay_ms=3_000)


def test_initial_delay_ends_with_the_rebalance_timeout() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        captures = []
        for _ in range(9):
            captures.append(harness.join_with_id(rebalance_ms=8_000))
            await sleep_ms(990)
        assert captures[0].is_done
        assert len(captures[0].response.members) == 9

    run_scenario(scenario, group_initial_rebalance_delay_ms=3_000)


def test_members_that_do_not_join_in_time_are_removed() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2, session_ms=200_000)
        again = harness.join(leader, session_ms=200_000)
        await sleep_ms(59_998)
        assert not again.is_done
        await sleep_ms(3)
        assert [each.member_id for each in again.response.members] == [leader]
        assert again.response.generation_id == 3
        assert harness.heartbeat(follower, 2) is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.num_pending == (0, 1, 1)

    run_scenario(scenario)


def test_leader_that_does_not_join_in_time_is_replaced() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2, session_ms=200_000)
        again = harness.join(follower, protocols=(("range", b"new"),), session_ms=200_000)
        await sleep_ms(60_001)
        assert again.response.leader == follower
        assert [(each.member_id, each.metadata) for each in again.response.members] == [
            (follower, b"new")
        ]
        assert harness.join(leader).error is ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)


def test_rebalance_waits_for_outstanding_member_ids() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        given = harness.join(session_ms=20_000)
        again = harness.join(leader, session_ms=30_000)
        assert not again.is_done
        await sleep_ms(20_001)
        assert [each.member_id for each in again.response.members] == [leader]
        assert harness.join(given.response.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)


def test_outstanding_member_id_expires() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        given = harness.join(session_ms=10_000)
        assert harness.num_pending == (0, 0, 1)
        await sleep_ms(10_001)
        assert harness.num_pending == (0, 0, 0)
        assert harness.join(given.response.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)


def test_new_member_that_waits_too_long_is_removed() -> None:
    """The member has to join again, because its connection may have ended unnoticed."""

    async def scenario(harness: CoordinatorHarness) -> None:
        harness.stable_group(1, session_ms=1_800_000, rebalance_ms=1_000_000)
        joined = harness.join_with_id(rebalance_ms=1_000_000)
        await sleep_ms(299_998)
        assert not joined.is_done
        await sleep_ms(3)
        assert joined.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert len(harness.group.members) == 1

    run_scenario(scenario)


def test_protocol_with_most_votes_is_selected() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        first = harness.join_with_id(protocols=(("c", b"c1"), ("a", b"a1"), ("b", b"b1")))
        second = harness.join_with_id(protocols=(("b", b"b2"), ("a", b"a2")))
        third = harness.join_with_id(protocols=(("b", b"b3"), ("a", b"a3")))
        await sleep_ms(9_001)
        assert {each.response.protocol_name for each in (first, second, third)} == {"b"}
        assert sorted(each.metadata for each in first.response.members) == [b"b1", b"b2", b"b3"]

    run_scenario(scenario, group_initial_rebalance_delay_ms=3_000)


def test_repeated_join_gets_the_same_response() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        joined = harness.join_with_id()
        again = harness.join(joined.response.member_id)
        assert again.response == joined.response
        assert harness.group.state is GroupState.COMPLETING_REBALANCE

    run_scenario(scenario)


def test_follower_that_joins_a_stable_group_again_gets_its_generation() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        again = harness.join(follower)
        assert (again.response.generation_id, again.response.leader, again.response.members) == (
            2,
            leader,
            [],
        )
        assert harness.group.state is GroupState.STABLE
        changed = harness.join(follower, protocols=BOTH)
        assert not changed.is_done
        assert harness.join(leader).response.generation_id == changed.response.generation_id == 3

    run_scenario(scenario)


def test_leader_that_joins_a_stable_group_again_starts_a_rebalance() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        again = harness.join(leader)
        assert not again.is_done
        assert harness.group.state is GroupState.PREPARING_REBALANCE
        harness.join(follower)
        assert again.response.generation_id == 3

    run_scenario(scenario)


def test_changed_protocols_while_the_group_syncs_start_a_rebalance() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        again = [harness.join(leader), harness.join(follower)]
        assert again[0].response.generation_id == 3
        pending = harness.sync(follower, 3)
        assert not pending.is_done
        changed = harness.join(leader, protocols=BOTH)
        assert pending.error is ErrorCode.REBALANCE_IN_PROGRESS
        assert not changed.is_done
        harness.join(follower)
        assert changed.response.generation_id == 4

    run_scenario(scenario)


def test_second_join_of_a_member_ends_its_pending_one() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        first = harness.join(leader)
        second = harness.join(leader)
        assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
        assert not second.is_done
        harness.join(follower)
        assert second.response.generation_id == 3

    run_scenario(scenario)


def test_full_group_rejects_new_members() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        captured = harness.join()
        assert (captured.error, captured.response.member_id) == (
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "",
        )
        assert harness.join(follower).error is ErrorCode.NONE
        again = harness.join(leader)
        assert not again.is_done
        rest = harness.join(follower)
        assert again.response.generation_id == rest.response.generation_id == 3

    run_scenario(scenario, group_max_size=2)


def test_too_large_group_rejects_the_last_members_to_join_again() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        ids = harness.stable_group(3)
        object.__setattr__(harness.settings, "group_max_size", 2)
        harness.restart()
        assert harness.group.state is GroupState.PREPARING_REBALANCE
        captures = [harness.join(each) for each in ids]
        assert captures[2].error is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert [each.response.generation_id for each in captures[:2]] == [4, 4]

    run_scenario(scenario)


def test_new_group_that_cannot_be_stored_is_removed() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.log.is_held = True
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        given = harness.join()
        joined = harness.join(given.response.member_id)
        assert harness.group.state is GroupState.PREPARING_REBALANCE
        harness.log.release()
        assert joined.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert harness.coordinator.groups == []
        assert harness.num_pending == (0, 0, 0)

    run_scenario(scenario, group_initial_rebalance_delay_ms=3_000)


def test_outstanding_member_id_is_rejected_with_an_instance_id() -> None:
    """Kafka also returns UNKNOWN_SERVER_ERROR."""

    async def scenario(harness: CoordinatorHarness) -> None:
        given = harness.join()
        assert (
            harness.join(given.response.member_id, instance_id="i").error
            is ErrorCode.UNKNOWN_SERVER_ERROR
        )
        assert harness.group.group_id == GROUP

    run_scenario(scenario)
