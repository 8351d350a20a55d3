"""SyncGroup, Heartbeat and LeaveGroup, and members that fail."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.group import GroupState
from purgatory_broker.groups.group_messages import Heartbeat
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.harness import CoordinatorHarness, run_scenario, sleep_ms

# -- SyncGroup


@pytest.mark.parametrize("version", range(6))
def test_members_get_the_leaders_assignment(version: int) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        ids = harness.stable_group(3)
        joined = [harness.join(each) for each in ids]
        assert [each.response.generation_id for each in joined] == [4, 4, 4]
        early = harness.sync(ids[1], 4, version=version)
        assert not early.is_done
        leader = harness.sync(ids[0], 4, {ids[0]: b"zero", ids[1]: b"one"}, version=version)
        late = harness.sync(ids[2], 4, version=version)
        assert [each.response.assignment for each in (leader, early, late)] == [
            b"zero",
            b"one",
            b"",
        ]
        if version >= 5:
            assert (early.response.protocol_type, early.response.protocol_name) == (
                "consumer",
                "range",
            )
        assert harness.group.state is GroupState.STABLE
        assert harness.num_pending == (0, 0, 3)

    run_scenario(scenario)


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
def test_invalid_sync_is_rejected(
    member: int | None, generation: int, options: dict[str, str], error: ErrorCode
) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        ids = harness.stable_group(1)
        member_id = "stranger" if member is None else ids[member]
        captured = harness.sync(member_id, generation, **options)  # type: ignore[arg-type]
        assert captured.error is error

    run_scenario(scenario)


def test_sync_during_a_rebalance_is_rejected() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        harness.join(leader)
        assert harness.sync(follower, 2).error is ErrorCode.REBALANCE_IN_PROGRESS

    run_scenario(scenario)


def test_members_that_do_not_sync_in_time_are_removed() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        ids = harness.stable_group(3, session_ms=100_000, rebalance_ms=30_000)
        for each in ids:
            harness.join(each, session_ms=100_000, rebalance_ms=30_000)
        pending = harness.sync(ids[1], 4)
        await sleep_ms(29_998)
        assert not pending.is_done
        await sleep_ms(3)
        assert pending.error is ErrorCode.REBALANCE_IN_PROGRESS
        assert list(harness.group.members) == [ids[1]]
        assert harness.join(ids[1]).response.generation_id == 5

    run_scenario(scenario)


def test_stable_group_removes_followers_that_do_not_sync() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2, rebalance_ms=30_000)
        harness.join(leader, rebalance_ms=30_000)
        harness.join(follower, rebalance_ms=30_000)
        harness.sync(leader, 3, {leader: b"all"})
        assert harness.group.state is GroupState.STABLE
        for _ in range(6):
            assert {harness.heartbeat(leader, 3), harness.heartbeat(follower, 3)} == {
                ErrorCode.NONE
            }
            await sleep_ms(5_001)
        assert harness.heartbeat(follower, 3) is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.heartbeat(leader, 3) is ErrorCode.REBALANCE_IN_PROGRESS

    run_scenario(scenario)


def test_second_sync_of_a_member_ends_its_pending_one() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        harness.join(leader)
        harness.join(follower)
        first = harness.sync(follower, 3)
        second = harness.sync(follower, 3)
        assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
        harness.sync(leader, 3, {follower: b"f"})
        assert second.response.assignment == b"f"

    run_scenario(scenario)


def test_assignment_is_sent_once_it_is_replicated() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        harness.join(leader)
        harness.join(follower)
        harness.log.is_held = True
        captures = harness.sync_all([leader, follower], 3)
        assert not any(each.is_done for each in captures)
        assert harness.group.state is GroupState.COMPLETING_REBALANCE
        harness.log.release()
        assert [each.response.assignment for each in captures] == [
            follower.encode(),
            leader.encode(),
        ]

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("error", "expected"),
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
def test_assignment_that_cannot_be_stored_is_not_sent(
    error: ErrorCode, expected: ErrorCode
) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        harness.join(leader)
        harness.join(follower)
        harness.log.error = error
        captures = harness.sync_all([leader, follower], 3)
        assert [each.error for each in captures] == [expected, expected]
        assert captures[0].response.assignment == b""
        assert harness.group.state is GroupState.PREPARING_REBALANCE
        harness.log.error = ErrorCode.NONE
        assert harness.join(leader).is_done is False
        assert harness.join(follower).response.generation_id == 4

    run_scenario(scenario)


def test_log_that_raises_ends_pending_requests_with_an_error() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        joined = harness.join_with_id()
        harness.log.failure = RuntimeError("no disk")
        assert (
            harness.sync(joined.response.member_id, 1, {}).error is ErrorCode.UNKNOWN_SERVER_ERROR
        )

    run_scenario(scenario)


def test_assignment_stored_after_the_next_rebalance_started_is_ignored() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        harness.join(leader)
        harness.log.is_held = True
        pending = harness.sync(leader, 2, {leader: b"old"})
        joined = harness.join_with_id()
        assert pending.error is ErrorCode.REBALANCE_IN_PROGRESS
        harness.log.release()
        assert harness.group.state is GroupState.PREPARING_REBALANCE
        harness.join(leader)
        assert joined.response.generation_id == 3
        assert harness.group.members[leader].assignment == b""

    run_scenario(scenario)


def test_reply_may_call_the_coordinator() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        joined = [harness.join(leader)]
        inner: list[ErrorCode] = []
        heartbeat = Heartbeat(group_id=GROUP, generation_id=3, member_id=leader, instance_id=None)
        original = joined[0].__class__.__call__

        def called(self: object, response: object) -> None:
            original(self, response)  # type: ignore[arg-type]
            harness.coordinator.check()
            inner.append(harness.coordinator.classic.heartbeat(heartbeat))

        joined[0].__class__.__call__ = called  # type: ignore[method-assign]
        try:
            last = harness.join(follower)
        finally:
            joined[0].__class__.__call__ = original  # type: ignore[method-assign]
        assert inner == [ErrorCode.NONE, ErrorCode.NONE]
        assert last.response.generation_id == joined[0].response.generation_id == 3

    run_scenario(scenario)


# -- Heartbeat


@pytest.mark.parametrize("version", range(5))
def test_heartbeats_keep_a_member_in_the_group(version: int) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        for _ in range(5):
            await sleep_ms(9_990)
            assert harness.heartbeat(leader, 1, version=version) is ErrorCode.NONE
        await sleep_ms(9_998)
        assert leader in harness.group.members
        await sleep_ms(3)
        assert harness.group.members == {}
        assert (harness.group.state, harness.group.generation) == (GroupState.EMPTY, 2)
        assert harness.heartbeat(leader, 1, version=version) is ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)


def test_invalid_heartbeat_is_rejected() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        assert harness.heartbeat(leader, 1, group_id="") is ErrorCode.INVALID_GROUP_ID
        assert harness.heartbeat(leader, 1, group_id="no such") is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.heartbeat(leader, 0) is ErrorCode.ILLEGAL_GENERATION
        assert harness.heartbeat(leader, 1, instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)


def test_heartbeats_are_accepted_between_join_and_sync() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        joined = harness.join_with_id()
        assert harness.group.state is GroupState.COMPLETING_REBALANCE
        assert harness.heartbeat(joined.response.member_id, 1) is ErrorCode.NONE

    run_scenario(scenario)


def test_member_with_a_pending_request_needs_no_heartbeats() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2, session_ms=10_000, rebalance_ms=100_000)
        again = harness.join(leader, rebalance_ms=100_000)
        for _ in range(10):
            await sleep_ms(5_000)
            assert harness.heartbeat(follower, 2) is ErrorCode.REBALANCE_IN_PROGRESS
        assert not again.is_done
        harness.join(follower, rebalance_ms=100_000)
        assert again.response.generation_id == 3
        pending = harness.sync(follower, 3)
        for _ in range(10):
            await sleep_ms(5_000)
            assert harness.heartbeat(leader, 3) is ErrorCode.NONE
        assert not pending.is_done
        harness.sync(leader, 3, {})
        assert pending.error is ErrorCode.NONE
        await sleep_ms(10_001)
        assert harness.group.members == {}

    run_scenario(scenario)


def test_failed_follower_starts_a_rebalance() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        await sleep_ms(9_000)
        assert harness.heartbeat(leader, 2) is ErrorCode.NONE
        await sleep_ms(1_001)
        assert list(harness.group.members) == [leader]
        assert harness.heartbeat(follower, 2) is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.heartbeat(leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS
        assert harness.join(leader).response.generation_id == 3

    run_scenario(scenario)


def test_failed_leader_starts_a_rebalance_of_the_waiting_members() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        harness.join(leader)
        harness.join(follower)
        pending = harness.sync(follower, 3)
        await sleep_ms(9_998)
        assert not pending.is_done
        await sleep_ms(3)
        assert pending.error is ErrorCode.REBALANCE_IN_PROGRESS
        again = harness.join(follower)
        assert (again.response.leader, again.response.generation_id) == (follower, 4)

    run_scenario(scenario)


# -- LeaveGroup


@pytest.mark.parametrize("version", range(6))
def test_member_that_leaves_is_removed_immediately(version: int) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        response = harness.leave((leader, None), version=version)
        assert response.error_code == 0
        if version >= 3:
            assert [(each.member_id, each.error_code) for each in response.members] == [(leader, 0)]
        assert list(harness.group.members) == [follower]
        assert harness.heartbeat(follower, 2) is ErrorCode.REBALANCE_IN_PROGRESS
        response = harness.leave((leader, None), version=version)
        error = response.members[0].error_code if version >= 3 else response.error_code
        assert error == ErrorCode.UNKNOWN_MEMBER_ID
        assert response.error_code == (0 if version >= 3 else ErrorCode.UNKNOWN_MEMBER_ID)

    run_scenario(scenario)


def test_last_member_to_leave_empties_the_group() -> None:
    """The empty generation is stored, so that no coordinator loads the group as stable."""

    async def scenario(harness: CoordinatorHarness) -> None:
        ids = harness.stable_group(2)
        assert [
            each.error_code for each in harness.leave(*((each, None) for each in ids)).members
        ] == [0, 0]
        assert (harness.group.state, harness.group.generation, harness.group.leader_id) == (
            GroupState.EMPTY,
            3,
            None,
        )
        assert harness.num_pending == (0, 0, 0)
        harness.restart()
        assert (harness.group.state, harness.group.generation) == (GroupState.EMPTY, 3)
        assert harness.join_with_id().response.generation_id == 4

    run_scenario(scenario)


def test_group_becomes_empty_even_if_it_cannot_be_stored() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        harness.leave((leader, None))
        assert harness.group.state is GroupState.EMPTY

    run_scenario(scenario)


def test_leave_ends_the_members_pending_requests() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        joining = harness.join(leader)
        harness.leave((leader, None))
        assert joining.error is ErrorCode.UNKNOWN_MEMBER_ID
        again = harness.join(follower)
        assert again.response.generation_id == 3
        other = harness.join_with_id()
        again = harness.join(follower)
        assert other.response.generation_id == 4
        syncing = harness.sync(other.response.member_id, 4)
        harness.leave((other.response.member_id, None))
        assert syncing.error is ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)


def test_leave_of_the_last_missing_member_completes_the_rebalance() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        joining = harness.join(leader)
        harness.leave((follower, None))
        assert joining.response.generation_id == 3

    run_scenario(scenario)


def test_outstanding_member_id_can_leave() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        given = harness.join()
        assert harness.leave((given.response.member_id, None)).members[0].error_code == 0
        assert harness.num_pending == (0, 0, 0)
        assert harness.join(given.response.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)


def test_invalid_leave_is_rejected() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        assert harness.leave(("m", None), group_id="").error_code == ErrorCode.INVALID_GROUP_ID
        assert harness.leave(("m", None)).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.leave(("m", None), version=0).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        ids = harness.stable_group(1)
        response = harness.leave(("", None), ("", "i"), ("stranger", None), (ids[0], None))
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert [each.error_code for each in response.members] == [unknown, unknown, unknown, 0]

    run_scenario(scenario)


def test_advanced_time_ends_sessions_earlier() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        silent, live = harness.stable_group(2, session_ms=10_000)
        await sleep_ms(4_000)
        assert harness.heartbeat(live, harness.group.generation) is ErrorCode.NONE
        for _ in range(2):
            harness.advanced_ms += 2_000
            harness.coordinator.time_advanced()
        await sleep_ms(1_999)
        assert set(harness.group.members) == {silent, live}
        await sleep_ms(2)
        assert set(harness.group.members) == {live}
        harness.advanced_ms += 1_000_000
        harness.coordinator.time_advanced()
        await sleep_ms(1)
        assert not harness.group.members
        assert harness.heartbeat(live, 1) is ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)
