"""The group coordinator of a node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.administration import AdministrationHandler
from purgatory_broker.groups.consumer.consumer_groups import ConsumerGroups, GroupConfig
from purgatory_broker.groups.consumer.heartbeat_messages import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    HeartbeatReply,
)
from purgatory_broker.groups.group import Group, GroupState
from purgatory_broker.groups.group_messages import (
    CommitReply,
    CommitRequest,
    DeleteGroupsReply,
    DeleteOffsetsReply,
    FetchedOffsets,
    GroupDescription,
    GroupError,
    GroupListing,
    Heartbeat,
    JoinReply,
    JoinRequest,
    JoinResult,
    LeaveReply,
    LeavingMember,
    RemovalResult,
    SyncReply,
    SyncRequest,
    SyncResult,
    TransactionalCommit,
    coordinator_error,
)
from purgatory_broker.groups.join_group import JoinGroupHandler
from purgatory_broker.groups.membership import MembershipHandler
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.modern.partitions import Assignment
from purgatory_broker.groups.modern.share_group import ShareGroup
from purgatory_broker.groups.modern.subscribed_topics import TopicsMetadata
from purgatory_broker.groups.offset_manager import OffsetManager
from purgatory_broker.groups.rebalancer import GroupPurgatories, Rebalancer
from purgatory_broker.groups.shards import (
    AnyGroup,
    OffsetsStore,
    Shard,
    Shards,
    StoredMarker,
    StoredRecord,
)
from purgatory_broker.groups.share.messages import (
    OffsetsReply,
    ShareGroupDescription,
    ShareHeartbeat,
    ShareHeartbeatReply,
    ShareOffsets,
)
from purgatory_broker.groups.share.share_groups import NewOffsets, ShareGroups
from purgatory_broker.log.verification import VerificationGuard
from purgatory_broker.settings import ClusterSettings

logger = logging.getLogger(__name__)

#: Errors for which Kafka leaves the member id out of the JoinGroup response.
_ERRORS_WITHOUT_MEMBER_ID = (ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR)


def _refuse_group_id() -> None:
    raise GroupError(ErrorCode.INVALID_GROUP_ID, "")


@dataclass(frozen=True, slots=True)
class ShareGroupParts:
    """What share groups need: their settings, by group, and where their offsets are stored."""

    offsets: ShareOffsets
    session_timeout_ms: Callable[[str], int]
    heartbeat_interval_ms: Callable[[str], int]


class GroupCoordinator:
    """Coordinates the groups whose offsets topic partition this node leads.

    The coordinator implements Kafka's classic group protocol without I/O. It returns results or
    passes them to `reply` callbacks, waits in three purgatories, and appends through an
    `OffsetsStore`. It is not safe for threads: every call must be on the purgatories' event loop.

    Requests and results are dataclasses, and know no versions of the protocol. A `reply` is called
    exactly once, when the coordinator's state is consistent, so it may call the coordinator again.
    """

    def __init__(
        self,
        node_id: int,
        settings: ClusterSettings,
        *,
        actions: ActionQueue,
        purgatories: GroupPurgatories,
        store: OffsetsStore,
        now_ms: Callable[[], int],
        metadata: TopicsMetadata,
        share: ShareGroupParts,
        group_config: GroupConfig,
        on_stable: Callable[[str], None] = lambda _group_id: None,
    ) -> None:
        """`on_stable` is called with the id of a group that has become stable, or was loaded."""
        self.node_id = node_id
        self._now_ms = now_ms
        self._on_stable = on_stable
        self._store = store
        self._actions = actions
        self._shards = Shards(settings.offsets_topic_num_partitions, store, self._actions)
        self._rebalancer = Rebalancer(
            purgatories,
            self._shards,
            actions,
            initial_delay_ms=settings.group_initial_rebalance_delay_ms,
            now_ms=now_ms,
            on_stable=on_stable,
        )
        self._consumers = ConsumerGroups(
            settings,
            self._shards,
            self._rebalancer,
            actions=actions,
            purgatories=purgatories,
            metadata=metadata,
            group_config=group_config,
            now_ms=now_ms,
            on_change=on_stable,
        )
        classic_members = self._consumers.classic_members
        self._join_group = JoinGroupHandler(
            settings, self._shards, self._rebalancer, classic_members, actions, now_ms
        )
        self._membership = MembershipHandler(
            self._shards, self._rebalancer, classic_members, actions
        )
        self._offsets = OffsetManager(
            shards=self._shards,
            actions=actions,
            max_metadata_chars=settings.offset_metadata_max_bytes,
            now_ms=now_ms,
            note_heartbeat=self._rebalancer.heartbeats.reschedule,
        )
        self._administration = AdministrationHandler(
            self._shards, self._offsets, actions, self._rebalancer.mark_dead
        )
        self._group_max_size = settings.group_max_size
        self._share_groups = ShareGroups(
            self._shards,
            actions=actions,
            purgatory=purgatories.heartbeat,
            metadata=metadata,
            offsets=share.offsets,
            max_size=settings.group_share_max_size,
            session_timeout_ms=share.session_timeout_ms,
            interval_ms=share.heartbeat_interval_ms,
            now_ms=now_ms,
            on_change=on_stable,
        )

    # -- partitions

    def partition_for(self, group_id: str) -> int:
        return self._shards.partition_for(group_id)

    def load(self, partition: int, entries: Iterable[StoredRecord | StoredMarker]) -> None:
        # Stored members have their session timeout to send a heartbeat. No-op if loaded.
        with self._actions:
            if partition in self._shards.by_partition:
                logger.debug(
                    "node %d has already loaded partition %d of the offsets topic",
                    self.node_id,
                    partition,
                )
                return
            shard = self._shards.by_partition[partition] = Shard(partition)
            shard.replay(entries, self._now_ms())
            for group in shard.groups.values():
                if isinstance(group, Group):
                    self._expect_members(group)
                elif isinstance(group, ShareGroup):
                    self._share_groups.load(group)
                elif isinstance(group, ConsumerGroup):
                    self._consumers.load(group)
                self._on_stable(group.group_id)
        logger.info(
            "node %d has loaded %d groups of partition %d of the offsets topic",
            self.node_id,
            len(shard.groups),
            partition,
        )

    def _expect_members(self, group: Group) -> None:
        for member in group.members.values():
            self._rebalancer.heartbeats.reschedule(
                group, member.member_id, member.session_timeout_ms
            )
        if len(group.members) > self._group_max_size:
            self._rebalancer.prepare_rebalance(
                group, f"{len(group.members)} members, group.max.size is {self._group_max_size}"
            )

    def unload(self, partition: int) -> None:
        """Pending requests of the groups get NOT_COORDINATOR. No-op if not loaded."""
        with self._actions:
            shard = self._shards.by_partition.pop(partition, None)
            if shard is None:
                return
            for group in shard.groups.values():
                if isinstance(group, Group):
                    self._rebalancer.mark_dead(group, ErrorCode.NOT_COORDINATOR)
                elif isinstance(group, ShareGroup):
                    self._share_groups.unload(group)
                else:
                    self._consumers.unload(group)
        logger.info(
            "node %d has unloaded partition %d of the offsets topic", self.node_id, partition
        )

    def abandon(self) -> None:
        """Forget all groups without an answer, and break their cycles, after the node's stop."""
        for group in self.groups:
            if isinstance(group, Group):
                group.heartbeats.clear()
            else:
                group.timers.clear()
        self._shards.by_partition.clear()
        self._rebalancer.heartbeats.abandon()
        self._share_groups.timers.abandon()
        self._consumers.timers.abandon()

    def time_advanced(self) -> None:
        """Remove the members whose session timeout has passed, since the time was advanced."""
        for group in self.groups:
            if isinstance(group, Group):
                self._rebalancer.heartbeats.time_advanced(group)
            elif isinstance(group, ShareGroup):
                self._share_groups.timers.time_advanced(group)
            else:
                self._consumers.timers.time_advanced(group)

    # -- members

    def join_group(self, request: JoinRequest, reply: JoinReply) -> None:
        """Answer a JoinGroup request when the group's next generation starts."""
        with self._actions:
            try:
                self._join_group.join(request, reply)
            except GroupError as error:
                member_id = "" if error.code in _ERRORS_WITHOUT_MEMBER_ID else request.member_id
                self._actions.add(partial(reply, JoinResult(error.code, member_id)))

    def sync_group(self, request: SyncRequest, reply: SyncReply) -> None:
        """Answer a SyncGroup request when the leader's assignment is stored."""
        with self._actions:
            try:
                self._membership.sync(request, reply)
            except GroupError as error:
                self._actions.add(partial(reply, SyncResult(error.code)))

    def heartbeat(self, request: Heartbeat) -> ErrorCode:
        with self._actions:
            try:
                self._membership.heartbeat(request)
            except GroupError as error:
                return error.code
        return ErrorCode.NONE

    def leave_group(
        self, group_id: str, leaving: Sequence[LeavingMember], reply: LeaveReply
    ) -> None:
        with self._actions:
            try:
                self._membership.leave(group_id, leaving, reply)
            except GroupError as error:
                self._actions.add(partial(reply, RemovalResult(error.code)))

    def consumer_heartbeat(self, request: ConsumerHeartbeat, reply: HeartbeatReply) -> None:
        """Answer a ConsumerGroupHeartbeat request when what it changes is replicated."""
        with self._actions:
            self._consumers.heartbeat(request, reply)

    def topics_changed(self, names: Collection[str]) -> None:
        """Note topics that were created or deleted, or that have got partitions."""
        modern = [group for group in self.groups if not isinstance(group, Group)]
        self._consumers.topics_changed(names, modern)

    # -- offsets

    def commit_offsets(self, request: CommitRequest, reply: CommitReply) -> None:
        """Answer when the records are replicated. The caller checks whether topics exist."""
        self._commit(partial(self._offsets.commit, request, reply), len(request.offsets), reply)

    def commit_transactional_offsets(
        self, request: TransactionalCommit, reply: CommitReply
    ) -> None:
        """Answer when the records are replicated, after the transaction's coordinator agrees.

        The offsets are pending until `end_transaction`. The caller checks whether topics exist.
        """
        count = len(request.offsets)
        if not request.group_id:
            self._commit(_refuse_group_id, count, reply)
            return
        partition = self.partition_for(request.group_id)
        if partition not in self._shards.by_partition:
            self._commit(partial(self._shards.shard_of, request.group_id), count, reply)
            return

        def verified(error: ErrorCode, guard: VerificationGuard | None) -> None:
            if error is not ErrorCode.NONE:
                reply((coordinator_error(error),) * count)
                return
            commit = partial(self._offsets.commit_transactional, request, guard, reply)
            self._commit(commit, count, reply)

        self._store.verify(partition, request, verified)

    def _commit(self, commit: Callable[[], object], count: int, reply: CommitReply) -> None:
        with self._actions:
            try:
                commit()
            except GroupError as error:
                self._actions.add(partial(reply, (error.code,) * count))

    def end_transaction(self, partition: int, producer_id: int, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer, whose marker was written."""
        with self._actions:
            shard = self._shards.by_partition.get(partition)
            if shard is not None:
                shard.end_transaction(producer_id, self._now_ms(), is_commit=is_commit)

    def fetch_offsets(
        self,
        group_id: str,
        requested: Iterable[tuple[str, Sequence[int]]] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> FetchedOffsets:
        """Return the replicated offsets of a group; None asks for all that it has committed.

        `member_id` and `member_epoch` are those of a member of the consumer protocol that asks.
        """
        return self._offsets.fetch(
            group_id,
            requested,
            require_stable=require_stable,
            member_id=member_id,
            member_epoch=member_epoch,
        )

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]], reply: DeleteOffsetsReply
    ) -> None:
        """Answer an OffsetDelete request when its records are replicated."""
        with self._actions:
            try:
                self._offsets.delete(group_id, partitions, reply)
            except GroupError as error:
                self._actions.add(partial(reply, RemovalResult(error.code)))

    def forget_topic(self, topic: str) -> None:
        with self._actions:
            self._offsets.forget_topic(topic)
            self._share_groups.forget_topics(self.groups)

    # -- administration

    def list_groups(
        self, states: Collection[str], types: Collection[str]
    ) -> tuple[GroupListing, ...]:
        return self._administration.list_groups(states, types)

    def describe_group(self, group_id: str) -> GroupDescription:
        return self._administration.describe_group(group_id)

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription:
        return self._consumers.describe(group_id)

    def delete_groups(self, group_ids: Iterable[str], reply: DeleteGroupsReply) -> None:
        """Answer a DeleteGroups request when its records are replicated or have failed."""
        wanted = list(group_ids)
        with_states = [
            group
            for group in self.groups
            if isinstance(group, ShareGroup) and group.is_empty and group.group_id in wanted
        ]
        pending = len(with_states)

        def states_deleted() -> None:
            nonlocal pending
            pending -= 1
            if pending <= 0:
                with self._actions:
                    self._administration.delete_groups(wanted, reply)

        with self._actions:
            for group in with_states:
                self._share_groups.delete_states(group, states_deleted)
            if not with_states:
                states_deleted()

    # -- share groups

    def share_heartbeat(self, request: ShareHeartbeat, reply: ShareHeartbeatReply) -> None:
        """Answer a ShareGroupHeartbeat request when its records are replicated."""
        with self._actions:
            self._share_groups.heartbeat(request, reply)

    def describe_share_group(self, group_id: str) -> ShareGroupDescription:
        return self._share_groups.describe(group_id)

    def describe_share_offsets(
        self, group_id: str, wanted: Mapping[str, Iterable[int]] | None, reply: OffsetsReply
    ) -> None:
        """Answer where a share group begins with partitions, by what their coordinators say."""
        with self._actions:
            self._share_groups.describe_offsets(group_id, wanted, reply)

    def alter_share_offsets(self, group_id: str, given: NewOffsets, reply: OffsetsReply) -> None:
        """Answer when the coordinators of the share partitions have stored the offsets."""
        with self._actions:
            self._share_groups.alter_offsets(group_id, given, reply)

    def delete_share_offsets(
        self, group_id: str, topics: Iterable[str], reply: OffsetsReply
    ) -> None:
        """Answer when the coordinators of the share partitions have deleted the states."""
        with self._actions:
            self._share_groups.delete_offsets(group_id, topics, reply)

    # -- inspection

    @property
    def groups(self) -> list[AnyGroup]:
        return [group for shard in self._shards for group in shard.groups.values()]

    def by_topic_name(self, partitions: Assignment) -> dict[str, list[int]]:
        """Return partitions by their topics' names, without those of deleted topics."""
        return self._consumers.migration.by_name(partitions)

    def check(self) -> None:
        for group in self.groups:
            assert not isinstance(group, Group) or group.state is not GroupState.DEAD, (
                group.group_id
            )
            group.check()
