"""The group coordinator of a node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.administration import AdministrationHandler
from purgatory_broker.groups.classic_groups import ClassicGroups
from purgatory_broker.groups.consumer.consumer_groups import ConsumerGroups, GroupConfig
from purgatory_broker.groups.group import Group, GroupState
from purgatory_broker.groups.group_offsets import GroupOffsets
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
from purgatory_broker.groups.share.messages import ShareOffsets
from purgatory_broker.groups.share.share_groups import ShareGroups
from purgatory_broker.settings import ClusterSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShareGroupParts:
    """What share groups need: their settings, by group, and where their offsets are stored."""

    offsets: ShareOffsets
    session_timeout_ms: Callable[[str], int]
    heartbeat_interval_ms: Callable[[str], int]


class GroupCoordinator:
    """Has the groups whose offsets topic partition this node leads, by kind.

    Its parts implement Kafka's group protocols without I/O. They return results or pass them to
    `reply` callbacks, wait in three purgatories, and append through an `OffsetsStore`. They are not
    safe for threads: every call must be on the purgatories' event loop.

    Requests and results are dataclasses, and know no versions of the protocol. A `reply` is called
    exactly once, when the coordinator's state is consistent, so it may call the coordinator again.

    Attributes:
        classic: Answers members of the classic protocol.
        consumer: Answers members of the consumer protocol.
        share: Answers members and administrators of share groups.
        offsets: Commits, fetches and deletes offsets of groups of any kind.
        administration: Lists, describes and deletes groups of any kind.
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
        self._actions = actions
        self._shards = Shards(settings.offsets_topic_num_partitions, store, self._actions)
        rebalancer = Rebalancer(
            purgatories,
            self._shards,
            actions,
            initial_delay_ms=settings.group_initial_rebalance_delay_ms,
            now_ms=now_ms,
            on_stable=on_stable,
        )
        self.consumer = ConsumerGroups(
            settings,
            self._shards,
            rebalancer,
            actions=actions,
            purgatories=purgatories,
            metadata=metadata,
            group_config=group_config,
            now_ms=now_ms,
            on_change=on_stable,
        )
        self.classic = ClassicGroups(
            settings,
            self._shards,
            rebalancer,
            self.consumer.classic_members,
            actions=actions,
            now_ms=now_ms,
        )
        self.share = ShareGroups(
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
        manager = OffsetManager(
            shards=self._shards,
            actions=actions,
            max_metadata_chars=settings.offset_metadata_max_bytes,
            now_ms=now_ms,
            note_heartbeat=rebalancer.heartbeats.reschedule,
        )
        self.offsets = GroupOffsets(
            self._shards, manager, actions=actions, store=store, now_ms=now_ms
        )
        self.administration = AdministrationHandler(
            self._shards, manager, self.share, actions, rebalancer.mark_dead
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
                    self.classic.load(group)
                elif isinstance(group, ShareGroup):
                    self.share.load(group)
                elif isinstance(group, ConsumerGroup):
                    self.consumer.load(group)
                self._on_stable(group.group_id)
        logger.info(
            "node %d has loaded %d groups of partition %d of the offsets topic",
            self.node_id,
            len(shard.groups),
            partition,
        )

    def unload(self, partition: int) -> None:
        """Pending requests of the groups get NOT_COORDINATOR. No-op if not loaded."""
        with self._actions:
            shard = self._shards.by_partition.pop(partition, None)
            if shard is None:
                return
            for group in shard.groups.values():
                if isinstance(group, Group):
                    self.classic.unload(group)
                elif isinstance(group, ShareGroup):
                    self.share.unload(group)
                else:
                    self.consumer.unload(group)
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
        self.classic.abandon()
        self.share.timers.abandon()
        self.consumer.timers.abandon()

    # -- time and topics

    def time_advanced(self) -> None:
        """Remove the members whose session timeout has passed, since the time was advanced."""
        for group in self.groups:
            if isinstance(group, Group):
                self.classic.time_advanced(group)
            elif isinstance(group, ShareGroup):
                self.share.timers.time_advanced(group)
            else:
                self.consumer.timers.time_advanced(group)

    def topics_changed(self, names: Collection[str]) -> None:
        """Note topics that were created or deleted, or that have got partitions."""
        modern = [group for group in self.groups if not isinstance(group, Group)]
        self.consumer.topics_changed(names, modern)

    def forget_topic(self, topic: str) -> None:
        with self._actions:
            self.offsets.forget_topic(topic)
            self.share.forget_topics(self.groups)

    # -- inspection

    @property
    def groups(self) -> list[AnyGroup]:
        return [group for shard in self._shards for group in shard.groups.values()]

    def by_topic_name(self, partitions: Assignment) -> dict[str, list[int]]:
        """Return partitions by their topics' names, without those of deleted topics."""
        return self.consumer.migration.by_name(partitions)

    def check(self) -> None:
        for group in self.groups:
            assert not isinstance(group, Group) or group.state is not GroupState.DEAD, (
                group.group_id
            )
            group.check()
