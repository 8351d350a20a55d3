"""Static members, which keep their place in the group across restarts."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.group import GroupState
from tests.broker.groups.captured_response import CapturedResponse
from tests.broker.groups.harness import CoordinatorHarness, run_scenario, sleep_ms

OTHER = (("sticky", b"s"),)


def static_group(harness: CoordinatorHarness, **options: object) -> list[str]:
    """Make a stable group of static members `a`, the leader, and `b`; return their member ids."""
    leader = harness.join(instance_id="a", **options).response.member_id  # type: ignore[arg-type]
    harness.sync_all([leader], 1)
    joined = harness.join(instance_id="b", **options)  # type: ignore[arg-type]
    harness.join(leader, instance_id="a", **options)  # type: ignore[arg-type]
    ids = [leader, joined.response.member_id]
    harness.sync_all(ids, 2)
    assert harness.group.state is GroupState.STABLE
    return ids


def test_static_member_joins_in_one_step() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        response = harness.join(instance_id="a").response
        assert (response.error_code, response.generation_id) == (0, 1)
        assert response.member_id.startswith("a-")
        assert [each.group_instance_id for each in response.members] == ["a"]

    run_scenario(scenario)


def test_restarted_follower_keeps_its_assignment_without_a_rebalance() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, former = static_group(harness)
        back = harness.join(instance_id="b")
        response = back.response
        assert (
            response.error_code,
            response.generation_id,
            response.leader,
            response.members,
            response.skip_assignment,
        ) == (0, 2, leader, [], False)
        assert response.member_id != former
        assert harness.group.state is GroupState.STABLE
        assert (
            harness.sync(response.member_id, 2, instance_id="b").response.assignment
            == former.encode()
        )
        assert harness.heartbeat(leader, 2, instance_id="a") is ErrorCode.NONE
        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert harness.heartbeat(former, 2, instance_id="b") is fenced
        assert harness.sync(former, 2, instance_id="b").error is fenced
        assert harness.join(former, instance_id="b").error is fenced
        assert (
            harness.commit({("t", 0): 1}, member_id=former, generation=2, instance_id="b")
            .response.topics[0]
            .partitions[0]
            .error_code
            == fenced
        )
        assert harness.leave((former, "b")).members[0].error_code == fenced
        harness.restart()
        assert set(harness.group.members) == {leader, response.member_id}

    run_scenario(scenario)


@pytest.mark.parametrize("version", [5, 8, 9])
def test_restarted_leader_makes_no_assignment(version: int) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        former, follower = static_group(harness)
        response = harness.join(instance_id="a", version=version).response
        assert (response.error_code, response.generation_id) == (0, 2)
        assert response.leader == (response.member_id if version >= 9 else former)
        assert response.skip_assignment is (version >= 9)
        assert {each.member_id for each in response.members} == (
            {response.member_id, follower} if version >= 9 else set()
        )
        assert harness.group.leader_id == response.member_id
        assert (
            harness.sync(response.member_id, 2, instance_id="a").response.assignment
            == former.encode()
        )

    run_scenario(scenario)


def test_restarted_member_that_changes_the_group_protocol_starts_a_rebalance() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        both = (("range", b"r"), ("sticky", b"s"))
        leader, _ = static_group(harness, protocols=both)
        assert (
            harness.join(
                instance_id="b", protocols=(("range", b"other"), ("sticky", b"s"))
            ).response.generation_id
            == 2
        )
        back = harness.join(instance_id="b", protocols=OTHER)
        assert not back.is_done
        again = harness.join(leader, instance_id="a", protocols=both)
        assert again.response.generation_id == back.response.generation_id == 3
        assert again.response.protocol_name == "sticky"

    run_scenario(scenario)


def test_member_restarted_while_the_group_syncs_starts_a_rebalance() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = static_group(harness)
        harness.join(leader, instance_id="a")
        harness.join(follower, instance_id="b", protocols=(("range", b"new"),))
        assert harness.group.state is GroupState.COMPLETING_REBALANCE
        pending = harness.sync(follower, 3, instance_id="b")
        back = harness.join(instance_id="b")
        assert pending.error is ErrorCode.FENCED_INSTANCE_ID
        assert not back.is_done
        harness.join(leader, instance_id="a")
        assert back.response.generation_id == 4

    run_scenario(scenario)


def test_member_restarted_during_a_rebalance_joins_it() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = static_group(harness)
        former = harness.join(leader, instance_id="a")
        back = harness.join(instance_id="a")
        assert (former.error, former.response.member_id) == (ErrorCode.FENCED_INSTANCE_ID, leader)
        assert not back.is_done
        harness.join(follower, instance_id="b")
        assert (back.response.generation_id, back.response.leader) == (3, back.response.member_id)

    run_scenario(scenario)


def test_static_members_stay_after_missing_a_rebalance() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = static_group(harness, session_ms=100_000)
        again = harness.join(leader, instance_id="a", session_ms=100_000)
        await sleep_ms(60_001)
        assert {each.member_id for each in again.response.members} == {leader, follower}
        harness.sync(leader, 3, {follower: b"kept"}, instance_id="a")
        back = harness.join(instance_id="b", session_ms=100_000)
        assert back.response.generation_id == 3
        assert (
            harness.sync(back.response.member_id, 3, instance_id="b").response.assignment == b"kept"
        )
        for _ in range(4):
            await sleep_ms(50_000)
            assert harness.heartbeat(leader, 3, instance_id="a") is ErrorCode.NONE
            if harness.heartbeat(back.response.member_id, 3, instance_id="b") is not ErrorCode.NONE:
                raise AssertionError

    run_scenario(scenario)


def test_rebalance_that_all_static_members_miss_stays_open() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        static_group(harness, session_ms=150_000)
        changed = harness.join(instance_id="c", session_ms=150_000)
        harness.leave(("", "c"))
        assert changed.error is ErrorCode.UNKNOWN_MEMBER_ID
        await sleep_ms(60_001)
        assert (harness.group.state, harness.group.generation) == (
            GroupState.PREPARING_REBALANCE,
            2,
        )
        await sleep_ms(60_000)
        assert harness.group.state is GroupState.PREPARING_REBALANCE
        await sleep_ms(30_001)
        assert (harness.group.state, harness.group.members) == (GroupState.EMPTY, {})

    run_scenario(scenario)


def test_replacement_is_answered_once_it_is_replicated() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        static_group(harness)
        harness.log.is_held = True
        first = harness.join(instance_id="b")
        second = harness.join(instance_id="b")
        assert first.error is ErrorCode.FENCED_INSTANCE_ID
        assert not second.is_done
        harness.log.release(1)
        assert not second.is_done, "the stored record is that of the first replacement"
        harness.log.release()
        assert second.response.generation_id == 2

    run_scenario(scenario)


def test_replacement_that_cannot_be_stored_is_undone() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = static_group(harness)
        harness.log.error = ErrorCode.REQUEST_TIMED_OUT
        back = harness.join(instance_id="a", protocols=(("range", b"new"),))
        assert (back.error, back.response.member_id, back.response.leader) == (
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "",
            leader,
        )
        assert set(harness.group.members) == {leader, follower}
        assert harness.group.leader_id == leader
        assert harness.group.members[leader].metadata("range") == b"r"
        assert harness.heartbeat(leader, 2, instance_id="a") is ErrorCode.NONE

    run_scenario(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
def test_rebalance_during_a_replacement_answers_it(error: ErrorCode) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, _ = static_group(harness)
        harness.log.is_held = True
        harness.log.error = error
        back = harness.join(instance_id="b")
        again = harness.join(leader, instance_id="a")
        assert back.response.generation_id == again.response.generation_id == 3
        harness.log.release()
        assert len(harness.group.members) == 2

    run_scenario(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
def test_replacement_stored_during_a_rebalance_waits_for_it(error: ErrorCode) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, _ = static_group(harness)
        harness.log.is_held = True
        harness.log.error = error
        back = harness.join(instance_id="b")
        newcomer = harness.join(instance_id="c")
        harness.log.release()
        assert not back.is_done
        harness.join(leader, instance_id="a")
        assert back.response.generation_id == newcomer.response.generation_id == 3

    run_scenario(scenario)


def test_session_does_not_expire_during_a_replacement() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, _ = static_group(harness)
        harness.log.is_held = True
        back = harness.join(instance_id="b")
        await sleep_ms(9_000)
        harness.heartbeat(leader, 2, instance_id="a")
        await sleep_ms(2_000)
        assert not back.is_done
        harness.log.release()
        assert back.error is ErrorCode.NONE
        await sleep_ms(7_500)
        harness.heartbeat(leader, 2, instance_id="a")
        await sleep_ms(2_600)
        assert list(harness.group.members) == [leader]

    run_scenario(scenario)


def test_static_members_can_be_removed_by_instance_id() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = static_group(harness)
        response = harness.leave(("", "b"), ("", "nobody"))
        assert [(each.group_instance_id, each.error_code) for each in response.members] == [
            ("b", 0),
            ("nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ]
        assert list(harness.group.members) == [leader]
        assert harness.heartbeat(follower, 2, instance_id="b") is ErrorCode.UNKNOWN_MEMBER_ID

    run_scenario(scenario)


def test_unknown_instance_id_is_an_unknown_member() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, _ = static_group(harness)
        captures: list[CapturedResponse] = [
            harness.join(leader, instance_id="c"),
            harness.sync(leader, 2, instance_id="c"),
        ]
        assert {each.error for each in captures} == {ErrorCode.UNKNOWN_MEMBER_ID}

    run_scenario(scenario)
