"""Members of share groups whose changes can't be stored."""

from __future__ import annotations

import asyncio

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.modern.share_group import ShareGroup
from purgatory_broker.groups.share.messages import ShareHeartbeat, ShareHeartbeatResult
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.harness import CLIENT, CoordinatorHarness, run_scenario


def beat(harness: CoordinatorHarness, member_id: str, epoch: int) -> ShareHeartbeatResult:
    """Send a heartbeat, and return the answer."""
    request = ShareHeartbeat(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        client=CLIENT,
        rack_id=None,
        topics=frozenset({"t"}),
    )
    answers: list[ShareHeartbeatResult] = []
    harness.coordinator.share.heartbeat(request, answers.append)
    (answer,) = answers
    return answer


def test_member_whose_leaving_is_not_stored_is_removed_after_its_session() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t", 1)
        beat(harness, "a", 0)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert beat(harness, "a", -1).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        harness.log.error = ErrorCode.NONE
        (group,) = harness.coordinator.groups
        assert isinstance(group, ShareGroup)
        assert set(group.members) == {"a"}
        await asyncio.sleep(45.1)
        assert group.is_empty

    run_scenario(scenario)


def test_epoch_below_that_of_a_member_that_leaves() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        answer = beat(harness, "a", -2)
        assert (answer.error, answer.message) == (
            ErrorCode.INVALID_REQUEST,
            "MemberEpoch is invalid.",
        )

    run_scenario(scenario)


def test_member_whose_joining_is_not_stored_leaves_nothing() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t", 1)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert beat(harness, "a", 0).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not harness.coordinator.groups
        assert harness.num_pending == (0, 0, 0)

    run_scenario(scenario)


def test_group_stays_if_its_states_are_not_deleted() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t", 1)
        beat(harness, "a", 0)
        beat(harness, "a", -1)
        harness.commit({("t", 0): 5}, group_id="other")
        harness.share_offsets.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        results = harness.delete_groups(GROUP, "other", GROUP).response.results
        assert [(each.group_id, ErrorCode(each.error_code)) for each in results] == [
            (GROUP, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            ("other", ErrorCode.NONE),
        ]
        assert [each.group_id for each in harness.coordinator.groups] == [GROUP]
        assert harness.share_offsets.stored
        harness.share_offsets.error = ErrorCode.NONE
        (result,) = harness.delete_groups(GROUP).response.results
        assert result.error_code == ErrorCode.NONE
        assert not harness.coordinator.groups
        assert not harness.share_offsets.stored

    run_scenario(scenario)
