"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

import asyncio

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.group import GroupState
from purgatory_broker.groups.group_records import OffsetKey, decode_key, decode_offset
from purgatory_broker.groups.shards import StoredRecord
from tests.broker.groups.captured_response import CapturedResponse
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.harness import CoordinatorHarness, run_scenario, sleep_ms

OFFSETS = {("t", 0): 7, ("t", 3): 9, ("u", 1): 0}


def errors(captured: CapturedResponse) -> set[ErrorCode]:
    """Return the error codes of all partitions of a response."""
    return {
        ErrorCode(each.error_code)
        for topic in captured.response.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(2, 10))
def test_committed_offsets_can_be_fetched(version: int) -> None:
    """The response has the metadata and, since version 6, the leader epoch."""

    async def scenario(harness: CoordinatorHarness) -> None:
        assert errors(harness.commit(OFFSETS, version=version)) == {ErrorCode.NONE}
        assert harness.committed() == OFFSETS
        (topic,) = harness.fetch({"t": [3, 4]}).topics
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

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(1, 10))
def test_every_version_fetches(version: int) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit(OFFSETS)
        response = harness.fetch({"t": [0], "no such": [1]}, version=version)
        assert [
            [each.committed_offset for each in topic.partitions] for topic in response.topics
        ] == [[7], [-1]]
        if version >= 5:
            assert response.topics[0].partitions[0].committed_leader_epoch == 3
        if version >= 2:
            assert harness.committed(version=version) == OFFSETS
        harness.coordinator.unload(harness.coordinator.partition_for(GROUP))
        response = harness.fetch({"t": [0]}, version=version)
        if version == 1:
            assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        else:
            assert (response.error_code, response.topics) == (ErrorCode.NOT_COORDINATOR, [])

    run_scenario(scenario)


def test_unknown_group_has_no_committed_offsets() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        assert harness.fetch(None).topics == []
        assert harness.fetch({"t": [0]}).topics[0].partitions[0].committed_offset == -1

    run_scenario(scenario)


def test_null_metadata_is_stored_as_empty() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({("t", 0): 1}, metadata=None)
        assert harness.fetch({"t": [0]}).topics[0].partitions[0].metadata == ""

    run_scenario(scenario)


def test_metadata_has_a_maximum_length() -> None:
    """The limit counts UTF-16 code units, as in Kafka."""

    async def scenario(harness: CoordinatorHarness) -> None:
        assert errors(harness.commit({("t", 0): 1}, metadata="x" * 4_096)) == {ErrorCode.NONE}
        assert errors(harness.commit({("t", 0): 1}, metadata="ä" * 4_096)) == {ErrorCode.NONE}, (
            "the limit counts characters, not bytes"
        )
        for long in ("x" * 4_097, "\U0001f600" * 2_049):
            assert errors(harness.commit({("t", 0): 2}, metadata=long)) == {
                ErrorCode.OFFSET_METADATA_TOO_LARGE
            }
        assert harness.committed() == {("t", 0): 1}

    run_scenario(scenario)


def test_commit_is_visible_once_it_is_replicated() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.log.is_held = True
        captured = harness.commit(OFFSETS)
        assert not captured.is_done
        assert harness.committed() == {}
        harness.log.release()
        assert errors(captured) == {ErrorCode.NONE}
        assert harness.committed() == OFFSETS

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_commit_that_cannot_be_stored_has_no_effect(error: ErrorCode, expected: ErrorCode) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.log.error = error
        assert errors(harness.commit(OFFSETS)) == {expected}
        assert harness.committed() == {}
        assert harness.coordinator.groups == []

    run_scenario(scenario)


def test_consumer_without_members_commits() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({("t", 0): 1})
        assert (harness.group.state, harness.group.protocol_type) == (GroupState.EMPTY, None)
        (leader,) = harness.stable_group(1)
        assert errors(harness.commit({("t", 0): 2})) == {ErrorCode.UNKNOWN_MEMBER_ID}
        harness.leave((leader, None))
        assert errors(harness.commit({("t", 0): 3})) == {ErrorCode.NONE}
        assert errors(harness.commit({("t", 0): 4}, group_id="")) == {ErrorCode.NONE}, (
            "old clients use an empty group id"
        )
        assert harness.committed() == {("t", 0): 3}

    run_scenario(scenario)


def test_member_commits_in_its_generation() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        leader, follower = harness.stable_group(2)
        for offset in range(4):
            await sleep_ms(6_000)
            harness.heartbeat(follower, 2)
            assert errors(harness.commit({("t", 0): offset}, member_id=leader, generation=2)) == {
                ErrorCode.NONE
            }
        assert leader in harness.group.members
        assert errors(harness.commit(OFFSETS, member_id=leader, generation=1)) == {
            ErrorCode.ILLEGAL_GENERATION
        }
        assert errors(harness.commit(OFFSETS, member_id=leader)) == {ErrorCode.ILLEGAL_GENERATION}
        assert errors(harness.commit(OFFSETS, member_id="stranger", generation=2)) == {
            ErrorCode.UNKNOWN_MEMBER_ID
        }
        harness.join(leader)
        assert errors(harness.commit(OFFSETS, member_id=follower, generation=2)) == {
            ErrorCode.NONE
        }, "a member may commit until it joins again"
        harness.join(follower)
        assert errors(harness.commit(OFFSETS, member_id=leader, generation=2)) == {
            ErrorCode.ILLEGAL_GENERATION
        }
        assert errors(harness.commit(OFFSETS, member_id=leader, generation=3)) == {
            ErrorCode.REBALANCE_IN_PROGRESS
        }

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_commit_with_a_generation_of_an_unknown_group_is_rejected(
    version: int, error: ErrorCode
) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        assert errors(harness.commit(OFFSETS, member_id="m", generation=1, version=version)) == {
            error
        }

    run_scenario(scenario)


def test_retention_time_is_stored_as_expiration_time() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        harness.commit({("t", 0): 5}, retention_ms=1_000, version=4)
        record = harness.log.records[harness.coordinator.partition_for(GROUP)][-1]
        assert isinstance(record, StoredRecord)
        assert decode_key(record.key) == OffsetKey(GROUP, "t", 0)
        assert record.value is not None
        stored = decode_offset(record.value)
        assert (stored.offset, stored.commit_timestamp_ms, stored.expire_timestamp_ms) == (
            5,
            now_ms,
            now_ms + 1_000,
        )

    run_scenario(scenario)


def test_offsets_of_a_deleted_topic_are_removed() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        for group_id in ("a", "b", "c", "d"):
            harness.commit(OFFSETS, group_id=group_id)
        harness.coordinator.forget_topic("t")
        harness.coordinator.forget_topic("no such")
        for _ in range(2):
            for group_id in ("a", "b", "c", "d"):
                assert harness.committed(group_id=group_id) == {("u", 1): 0}
            harness.restart()

    run_scenario(scenario)


def test_offsets_of_a_deleted_topic_stay_if_tombstones_cannot_be_stored() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit(OFFSETS)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        harness.coordinator.forget_topic("t")
        assert harness.committed() == OFFSETS

    run_scenario(scenario)


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit(OFFSETS)
        reads_u = (("range", b"\0\0\0\0\0\1\0\1u\xff\xff\xff\xff"),)
        harness.stable_group(1, protocols=reads_u)
        captured = harness.delete_offsets("t", 0, 5)
        assert (captured.error, errors(captured)) == (ErrorCode.NONE, {ErrorCode.NONE})
        assert errors(harness.delete_offsets("u", 1)) == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
        assert harness.committed() == {("t", 3): 9, ("u", 1): 0}
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert harness.delete_offsets("t", 3).error is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run_scenario(scenario)


def test_invalid_offset_delete_is_rejected() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        assert harness.delete_offsets("t", 0, group_id="").error is ErrorCode.INVALID_GROUP_ID
        assert harness.delete_offsets("t", 0).error is ErrorCode.GROUP_ID_NOT_FOUND
        harness.join(version=0, protocol_type="connect")
        assert harness.delete_offsets("t", 0).error is ErrorCode.NON_EMPTY_GROUP

    run_scenario(scenario)


@pytest.mark.parametrize("metadata", [b"", b"r", b"\0\0\0\0\0\1\0\5u"])
def test_unknown_subscription_counts_as_every_topic(metadata: bytes) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit(OFFSETS)
        harness.stable_group(1, protocols=(("range", metadata),))
        assert errors(harness.delete_offsets("t", 0)) == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}

    run_scenario(scenario)
