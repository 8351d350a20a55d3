"""The consumer groups of a node, and what the coordinator needs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.change import refuse_waiting
from purgatory_broker.groups.consumer.classic_members import ClassicMembers
from purgatory_broker.groups.consumer.heartbeat import ConsumerHeartbeatHandler
from purgatory_broker.groups.consumer.heartbeat_messages import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    ConsumerMemberDescription,
    HeartbeatReply,
)
from purgatory_broker.groups.consumer.membership import (
    JOIN,
    REBALANCE,
    SESSION,
    SYNC,
    ConsumerMembership,
)
from purgatory_broker.groups.consumer.migration import Migration
from purgatory_broker.groups.consumer.regexes import REGEX, Regexes
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.modern.group import ModernGroup
from purgatory_broker.groups.modern.subscribed_topics import TopicsMetadata
from purgatory_broker.groups.modern.timers import MemberTimers
from purgatory_broker.groups.rebalancer import GroupPurgatories, Rebalancer
from purgatory_broker.groups.shards import Shards
from purgatory_broker.settings import ClusterSettings

#: Returns the value of a dynamic setting of a group; None if it has none.
GroupConfig = Callable[[str, str], int | None]


class ConsumerGroups:
    def __init__(
        self,
        settings: ClusterSettings,
        shards: Shards,
        rebalancer: Rebalancer,
        *,
        actions: ActionQueue,
        purgatories: GroupPurgatories,
        metadata: TopicsMetadata,
        group_config: GroupConfig,
        now_ms: Callable[[], int],
        on_change: Callable[[str], object],
    ) -> None:
        self._actions = actions
        self._known_topics: set[str] = set()
        self.timers = MemberTimers(
            {
                SESSION: purgatories.heartbeat,
                REBALANCE: purgatories.join,
                JOIN: purgatories.join,
                SYNC: purgatories.sync,
                REGEX: purgatories.join,
            },
            actions,
            now_ms,
            self._expire,
        )

        def session_timeout_ms(group_id: str) -> int:
            dynamic = group_config(group_id, "consumer.session.timeout.ms")
            return settings.group_consumer_session_timeout_ms if dynamic is None else dynamic

        def interval_ms(group_id: str) -> int:
            dynamic = group_config(group_id, "consumer.heartbeat.interval.ms")
            return settings.group_consumer_heartbeat_interval_ms if dynamic is None else dynamic

        self.membership = ConsumerMembership(
            shards,
            actions,
            self.timers,
            metadata,
            settings.consumer_assignors,
            session_timeout_ms,
            on_change,
        )
        max_size = settings.group_consumer_max_size
        self.regexes = Regexes(
            self.membership, now_ms, settings.group_consumer_regex_refresh_interval_ms
        )
        self.migration = Migration(
            self.membership,
            rebalancer,
            settings.group_consumer_migration_policy,
            max_size,
            settings.group_max_size,
            now_ms,
        )
        self.classic_members = ClassicMembers(self.membership, self.migration, actions, max_size)
        self._heartbeat = ConsumerHeartbeatHandler(
            self.membership, self.regexes, self.migration, actions, max_size, interval_ms
        )

    # -- requests

    def heartbeat(self, request: ConsumerHeartbeat, reply: HeartbeatReply) -> None:
        """Answer a ConsumerGroupHeartbeat request when what it changes is replicated."""
        with self._actions:
            try:
                self._heartbeat.heartbeat(request, reply)
            except GroupError as error:
                result = ConsumerHeartbeatResult(error.code, error.message)
                self._actions.add(partial(reply, result))

    def describe(self, group_id: str) -> ConsumerGroupDescription:
        try:
            group = self.migration.present_group(group_id)
        except GroupError as error:
            return ConsumerGroupDescription(group_id, error.code, error.message)
        return ConsumerGroupDescription(
            group_id,
            state=group.state_name,
            epoch=group.epoch,
            target_epoch=group.target_epoch,
            assignor=self.membership.preferred_assignor(group),
            members=tuple(
                ConsumerMemberDescription(
                    member_id,
                    member,
                    group.current_of(member_id),
                    group.target_of(member_id),
                )
                for member_id, member in group.members.items()
            ),
        )

    # -- loading, time and topics

    def load(self, group: ConsumerGroup) -> None:
        group.needs_refresh = True  # Topics may have changed in the meantime.
        self.membership.expect_members(group)

    def unload(self, group: ModernGroup) -> None:
        self.timers.cancel_group(group)
        self.regexes.forget(group)
        refuse_waiting(group, self._actions)

    def topics_changed(self, names: Iterable[str], groups: Iterable[ModernGroup]) -> None:
        """Look at topics again, which have other partitions, were created or are deleted."""
        changed = set(names)
        if not changed <= self._known_topics:
            self._known_topics = set(self.membership.metadata.topics)
            self.regexes.version += 1
        else:
            self._known_topics -= changed - self.membership.metadata.topics.keys()
        for group in groups:
            if not changed.isdisjoint(group.subscribed_topics):
                group.needs_refresh = True

    def _expire(self, group: ModernGroup, member_id: str, kind: str) -> None:
        if kind == REGEX:
            self.regexes.go_on(group)
        else:
            self.migration.expire(group, member_id, kind)
