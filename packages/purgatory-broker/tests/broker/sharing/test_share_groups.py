"""Tests of share groups: their members, assignments and offsets, through the handlers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from purgatory_broker._wire.protocol.delete_groups import DeleteGroupsRequest
from purgatory_broker._wire.protocol.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from purgatory_broker._wire.protocol.metadata import MetadataRequest, MetadataRequestTopic
from purgatory_broker._wire.protocol.share_group_describe import ShareGroupDescribeRequest
from purgatory_broker._wire.protocol.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.groups.modern.share_group import ShareGroup
from purgatory_broker.groups.share.assignor import assign
from purgatory_broker.metadata.acls import (
    AclOperation,
    AclResource,
    Acls,
)
from purgatory_broker.metadata.authorizer import Authorizer
from purgatory_broker.metadata.topic_configs import ResourceType
from purgatory_broker.metadata.topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    ControllerError,
    TopicPartition,
)
from purgatory_broker.settings import ClusterSettings
from tests.broker.replication.cluster_harness import KEY
from tests.broker.security.acls import allows_everyone
from tests.broker.sharing.share_harness import (
    ACCEPT,
    GROUP,
    Member,
    ShareHarness,
    partition_of,
    ranges,
    run_shares,
)
from tests.support.profiles import examples
from tests.unit.aio.virtual import run

EARLIEST = {"share.auto.offset.reset": "earliest"}


class GroupMember(Member):
    """A member that also sends heartbeats to its coordinator."""

    def __init__(self, harness: ShareHarness, name: str, group: str = GROUP) -> None:
        super().__init__(harness, name, group)
        self.member_epoch = 0
        self.partitions: list[int] = []

    @property
    def coordinator(self) -> int:
        """The node that coordinates the group."""
        node = self.harness.node(0)
        number = node.groups.partition_for(self.group)
        return node.metadata.leader_of(TopicPartition(OFFSETS_TOPIC, number))[0]

    async def heartbeat(
        self, *topics: str, epoch: int | None = None
    ) -> ShareGroupHeartbeatResponse:
        """Send a heartbeat, and take what the answer says."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.name,
            member_epoch=self.member_epoch if epoch is None else epoch,
            subscribed_topic_names=list(topics) or None,
        )
        response: ShareGroupHeartbeatResponse = await self.send(self.coordinator, request).get()
        if not response.error_code:
            self.member_epoch = response.member_epoch
            if response.assignment is not None:
                self.partitions = [
                    number
                    for topic in response.assignment.topic_partitions
                    for number in topic.partitions
                ]
        return response

    async def join(self) -> None:
        """Send heartbeats until the member has the partition."""
        await self.heartbeat(KEY.topic)
        await self.harness.settle()
        await self.heartbeat()
        assert self.partitions == [0]


def group_of(harness: ShareHarness) -> ShareGroup:
    """Return the group at its coordinator."""
    groups = [each for node in harness.cluster.nodes for each in node.groups.groups]
    (group,) = [each for each in groups if each.group_id == GROUP]
    assert isinstance(group, ShareGroup)
    group.check()
    return group


def prepare(harness: ShareHarness, group: str = GROUP) -> None:
    """Let the group begin at the first record, and create the topics of groups and states."""
    harness.cluster.controller.topic_changes.create_offsets_topic()
    harness.cluster.controller.topic_changes.create_share_state_topic()
    harness.cluster.controller.config_changes.alter(
        ResourceType.GROUP, group, dict(EARLIEST), validate_only=False
    )


def run_groups(scenario: Any, *, nodes: int = 1, **settings: Any) -> None:
    """Run a scenario with the topic, without a state."""

    async def main() -> None:
        async with AsyncCluster(ClusterSettings(nodes=nodes, **settings)) as cluster:
            harness = ShareHarness(cluster)
            await harness.create_topic()
            prepare(harness)
            await harness.settle()
            await scenario(harness)

    run(main)


def test_first_member_learns_of_its_partitions_by_its_second_heartbeat() -> None:
    """The state is initialized between the two."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0")
        member = GroupMember(harness, "m")
        first = await member.heartbeat(KEY.topic)
        assert (first.member_epoch, first.assignment.topic_partitions) == (1, [])  # type: ignore[union-attr]
        await harness.settle()
        second = await member.heartbeat()
        assert (second.member_epoch, member.partitions) == (2, [0])
        assert (await member.heartbeat()).assignment is None
        assert await member.acquire() == [(0, 0, 1)]
        state = harness.stored()
        assert state is not None
        assert state.start_offset == -1
        assert group_of(harness).state_name == "Stable"
        shown = harness.cluster.groups()[GROUP]
        assert (shown.state, shown.members[0].assignment) == ("Stable", {KEY.topic: [0]})

    run_groups(scenario)


def test_state_is_initialized_once() -> None:
    """Also if other members ask before that is done."""

    async def scenario(harness: ShareHarness) -> None:
        members = [GroupMember(harness, name) for name in "abc"]
        await asyncio.gather(*(member.heartbeat(KEY.topic) for member in members))
        await harness.settle()
        state = harness.stored()
        assert state is not None
        assert state.snapshot_epoch == 0

    run_groups(scenario, nodes=3)


def test_group_with_a_topic_that_the_client_may_not_describe() -> None:
    """The whole group has an error; of all its offsets, those of the topic are left out."""

    async def scenario(harness: ShareHarness) -> None:
        member = GroupMember(harness, "m")
        await member.join()
        node = harness.node(member.coordinator)
        stored = [
            allows_everyone(AclResource.GROUP, GROUP, AclOperation.DESCRIBE),
            allows_everyone(AclResource.TOPIC, KEY.topic, AclOperation.DESCRIBE),
        ]
        acls = Acls(stored)
        node.authorizer = Authorizer(lambda: acls, frozenset(), allows_without_acls=False)
        request = ShareGroupDescribeRequest(group_ids=[GROUP])
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)
        of_offsets = DescribeShareGroupOffsetsRequest(groups=[asked])
        (group,) = (await member.send(node.node_id, request).get()).groups
        (offsets,) = (await member.send(node.node_id, of_offsets).get()).groups
        assert group.error_code == ErrorCode.NONE
        assert [topic.topic_name for topic in offsets.topics] == [KEY.topic]
        acls = Acls(stored[:1])
        (group,) = (await member.send(node.node_id, request).get()).groups
        (offsets,) = (await member.send(node.node_id, of_offsets).get()).groups
        assert group.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not group.members
        assert (offsets.error_code, offsets.topics) == (ErrorCode.NONE, [])

    run_groups(scenario)


def test_client_that_asks_for_the_topic_of_states_creates_it() -> None:
    """With its own settings, as in Kafka."""

    async def main() -> None:
        async with AsyncCluster(ClusterSettings(nodes=1)) as cluster:
            harness = ShareHarness(cluster)
            request = MetadataRequest(topics=[MetadataRequestTopic(name=SHARE_STATE_TOPIC)])
            for expected in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE):
                answer = await Member(harness, "m").send(0, request).get()
                assert answer.topics[0].error_code == expected
                await harness.settle()
            configs = cluster.controller.topics[SHARE_STATE_TOPIC].configs
            assert configs["cleanup.policy"] == "delete"

    run(main)


def test_lost_answer_is_repeated() -> None:
    """A member that has missed its new epoch is told again; an older epoch is refused."""

    async def scenario(harness: ShareHarness) -> None:
        member = GroupMember(harness, "m")
        await member.join()
        epoch = member.member_epoch
        other = GroupMember(harness, "other")
        await other.heartbeat(KEY.topic)
        assert (await member.heartbeat()).member_epoch == epoch + 1
        assert (await member.heartbeat(epoch=epoch)).member_epoch == epoch + 1
        fenced = await member.heartbeat(epoch=epoch - 1)
        assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        early = await member.heartbeat(epoch=epoch + 2)
        assert early.error_code == ErrorCode.FENCED_MEMBER_EPOCH

    run_groups(scenario)


@pytest.mark.parametrize("is_advanced", [False, True])
def test_silent_member_is_removed(is_advanced: bool) -> None:
    """By the loop's clock and by the brokers' time of day."""

    async def scenario(harness: ShareHarness) -> None:
        member = GroupMember(harness, "m")
        await member.join()
        if is_advanced:
            harness.cluster.advance_time(6_000)
            await harness.settle()
        else:
            await asyncio.sleep(5.5)
        assert group_of(harness).is_empty
        answer = await member.heartbeat()
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        member.member_epoch = 0
        await member.join()

    run_groups(scenario, group_share_session_timeout_ms=5_000, log_retention_ms=None)


def test_own_lock_duration_within_the_brokers_limits() -> None:
    """A group's setting is for its next fetches; one below the limit is refused."""

    async def scenario(harness: ShareHarness) -> None:
        changes = harness.cluster.controller.config_changes
        name = "share.record.lock.duration.ms"
        with pytest.raises(ControllerError, match="at least 1000"):
            changes.alter(ResourceType.GROUP, GROUP, {name: "999"}, validate_only=False)
        own = EARLIEST | {name: "3000"}
        changes.alter(ResourceType.GROUP, GROUP, own, validate_only=False)
        harness.produce(0, b"0")
        member = GroupMember(harness, "m")
        await member.join()
        response = await member.fetch().get()
        assert response.acquisition_lock_timeout_ms == 3_000
        again = member.fetch(max_wait_ms=10_000)
        data = partition_of(await again.get())
        assert data is not None
        assert ranges(data) == [(0, 0, 2)]
        assert again.waited_ms in range(2_990, 3_100)

    run_groups(scenario, group_share_min_record_lock_duration_ms=1_000)


def test_group_that_is_full() -> None:
    """Another member is refused, and leaves no trace."""

    async def scenario(harness: ShareHarness) -> None:
        await GroupMember(harness, "m").join()
        answer = await GroupMember(harness, "n").heartbeat(KEY.topic)
        assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert set(group_of(harness).members) == {"m"}

    run_groups(scenario, group_share_max_size=1)


def test_next_coordinator_goes_on() -> None:
    """Members keep their epochs, and the initialized partitions."""

    async def scenario(harness: ShareHarness) -> None:
        member = GroupMember(harness, "m")
        await member.join()
        epoch, former = member.member_epoch, member.coordinator
        before = group_of(harness).states
        number = harness.node(0).groups.partition_for(GROUP)
        harness.cluster.move_leader(OFFSETS_TOPIC, number, (former + 1) % 3)
        await harness.settle()
        assert member.coordinator != former
        assert (await member.heartbeat()).member_epoch == epoch
        assert group_of(harness).states == before

    run_groups(scenario, nodes=3)


def test_restart_delivers_what_was_not_accepted(tmp_path: Path) -> None:
    """After `kill -9` too: what was accepted with an answer is not delivered again."""

    async def before(harness: ShareHarness) -> None:
        harness.produce(0, b"0", b"1", b"2", b"3")
        member = GroupMember(harness, "m")
        await member.join()
        assert await member.acquire() == [(0, 3, 1)]
        assert await member.acknowledged((1, 2, [ACCEPT])) == 0
        harness.cluster.kill(0)
        await harness.cluster.restart(0)
        await harness.settle()
        other = GroupMember(harness, "other")
        await other.join()
        assert await other.acquire() == [(0, 0, 1), (3, 3, 1)]
        member.epochs.clear()
        assert (await member.heartbeat()).error_code == 0

    run_groups(before, data_dir=tmp_path)


def test_altered_offset_begins_a_new_state() -> None:
    """The leader begins anew for the next member."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0", b"1", b"2")
        member = GroupMember(harness, "m")
        await member.join()
        assert await member.acquire() == [(0, 2, 1)]
        assert await member.acknowledged((0, 2, [ACCEPT])) == 0

        async def altered(start: int) -> Any:
            partition = AlterShareGroupOffsetsRequestPartition(
                partition_index=0, start_offset=start
            )
            topic = AlterShareGroupOffsetsRequestTopic(topic_name=KEY.topic, partitions=[partition])
            request = AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic])
            return await member.send(member.coordinator, request).get()

        assert (await altered(1)).error_code == ErrorCode.NON_EMPTY_GROUP
        assert not (await member.fetch(epoch=-1).get()).error_code
        await member.heartbeat(epoch=-1)
        assert (await altered(1)).responses[0].partitions[0].error_code == 0
        member = GroupMember(harness, "next")
        await member.join()
        assert await member.acquire() == [(1, 2, 1)]

    run_groups(scenario)


def test_deleted_group_and_topic_leave_nothing() -> None:
    """Neither at the group coordinator nor at the share coordinator."""

    async def scenario(harness: ShareHarness) -> None:
        member = GroupMember(harness, "m")
        await member.join()
        assert harness.stored() is not None
        request = DeleteGroupsRequest(groups_names=[GROUP])
        kept = await member.send(member.coordinator, request).get()
        assert kept.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        await member.heartbeat(epoch=-1)
        gone = await member.send(member.coordinator, request).get()
        assert gone.results[0].error_code == ErrorCode.NONE
        assert harness.stored() is None
        member = GroupMember(harness, "n")
        await member.join()
        key = harness.share_key
        harness.cluster.delete_topic(KEY.topic)
        await harness.settle()
        assert group_of(harness).states.initialized_partitions == frozenset()
        assert harness.node(0).share_coordinator.state_of(key) is None
        await member.heartbeat()
        assert member.partitions == []

    run_groups(scenario)


def test_share_group_is_no_other_group() -> None:
    """Its id is taken for share groups alone."""

    async def scenario(harness: ShareHarness) -> None:
        await GroupMember(harness, "m").join()
        node = harness.node(0)
        listed = node.groups.administration.list_groups((), ("share",))
        assert [(each.group_id, each.state, each.protocol_type) for each in listed] == [
            (GROUP, "Stable", "share")
        ]
        assert node.groups.administration.list_groups((), ("classic",)) == ()
        assert (
            node.groups.administration.describe_group(GROUP).error is ErrorCode.GROUP_ID_NOT_FOUND
        )

    run_groups(scenario)


partitions = st.frozensets(
    st.builds(TopicIdPartition, st.sampled_from([UUID(int=1), UUID(int=2)]), st.integers(0, 3)),
    max_size=6,
)
members = st.dictionaries(st.sampled_from("abcde"), partitions, min_size=1)


@examples(50)
@given(members, st.booleans(), st.dictionaries(st.sampled_from("abcde"), partitions))
def test_everything_is_assigned(subscribed: Any, is_uniform: bool, previous: Any) -> None:
    """Each partition has a member, each member a partition of its own subscription."""
    if is_uniform:
        first = next(iter(subscribed.values()))
        subscribed = dict.fromkeys(subscribed, first)
    assigned = assign(subscribed, previous)
    everything = frozenset().union(*subscribed.values())
    assert frozenset().union(*assigned.values()) == everything
    for member_id, found in assigned.items():
        assert found <= subscribed[member_id]
        assert bool(found) == bool(subscribed[member_id])
    if is_uniform and everything:
        sizes = [len(found) for found in assigned.values()]
        assert max(sizes) - min(sizes) <= 1
        assert assign(subscribed, assigned) == assigned


def test_run_shares_checks_its_partitions() -> None:
    """The harness's own check fails if an invariant does not hold."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0")
        await Member(harness, "m").acquire()
        (led,) = harness.node(0).share_partitions
        assert led.records is not None
        led.records.next_offset = 0

    with pytest.raises(AssertionError):
        run_shares(scenario)
