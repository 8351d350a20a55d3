"""The share groups of a node, and what the coordinator needs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.modern.group import ModernGroup
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.groups.modern.share_group import ShareGroup
from purgatory_broker.groups.modern.subscribed_topics import TopicsMetadata
from purgatory_broker.groups.modern.timers import MemberTimers
from purgatory_broker.groups.shards import Shards
from purgatory_broker.groups.share.heartbeat import SESSION, ShareHeartbeatHandler
from purgatory_broker.groups.share.messages import (
    OffsetsReply,
    OffsetsResult,
    ShareGroupDescription,
    ShareHeartbeat,
    ShareHeartbeatReply,
    ShareHeartbeatResult,
    ShareMemberDescription,
    ShareOffset,
    ShareOffsets,
)
from purgatory_broker.groups.share.share_states import Offsets, ShareGroupStates
from purgatory_broker.metadata.topics import Topic
from request_purgatory.aio import Purgatory

#: The start offsets that an administrator sets, by topic and partition.
NewOffsets = Mapping[str, Mapping[int, int]]


class ShareGroups:
    def __init__(
        self,
        shards: Shards,
        *,
        actions: ActionQueue,
        purgatory: Purgatory,
        metadata: TopicsMetadata,
        offsets: ShareOffsets,
        max_size: int,
        session_timeout_ms: Callable[[str], int],
        interval_ms: Callable[[str], int],
        now_ms: Callable[[], int],
        on_change: Callable[[str], object],
    ) -> None:
        self._shards = shards
        self._actions = actions
        self._metadata = metadata
        self.timers = MemberTimers({SESSION: purgatory}, actions, now_ms, self._expire)
        self.states = ShareGroupStates(shards, actions, metadata, offsets)
        self._members = ShareHeartbeatHandler(
            shards=shards,
            actions=actions,
            timers=self.timers,
            metadata=metadata,
            states=self.states,
            max_size=max_size,
            session_timeout_ms=session_timeout_ms,
            interval_ms=interval_ms,
            on_change=on_change,
        )

    # -- members

    def heartbeat(self, request: ShareHeartbeat, reply: ShareHeartbeatReply) -> None:
        try:
            self._members.heartbeat(request, reply)
        except GroupError as error:
            result = ShareHeartbeatResult(error.code, error.message)
            self._actions.add(partial(reply, result))

    def describe(self, group_id: str) -> ShareGroupDescription:
        try:
            group = self._members.present_group(group_id)
        except GroupError as error:
            return ShareGroupDescription(group_id, error.code, error.message)
        return ShareGroupDescription(
            group_id,
            state=group.state_name,
            epoch=group.epoch,
            target_epoch=max(0, group.target_epoch),
            members=tuple(
                ShareMemberDescription(member_id, member, group.current_of(member_id))
                for member_id, member in group.members.items()
            ),
        )

    # -- offsets

    def describe_offsets(
        self,
        group_id: str,
        wanted: Mapping[str, Iterable[int]] | None,
        reply: OffsetsReply,
    ) -> None:
        """Answer where a group begins with partitions; None asks for all that have a state.

        As in Kafka, a group or a partition that does not exist has no start offset, and no error.
        """
        try:
            found = self._shards.shard_of(group_id).groups.get(group_id)
        except GroupError as error:
            self._refuse(reply, error)
            return
        group = found if isinstance(found, ShareGroup) else ShareGroup(group_id)
        if wanted is None:
            known = sorted(group.states.initialized_partitions)
            wanted = {
                name: [each.partition for each in known if each.topic_id == topic_id]
                for topic_id, name in sorted(group.states.names, key=lambda each: each[1])
            }
        topics: dict[str, dict[int, ShareOffset]] = {name: {} for name in wanted}
        asked: dict[TopicIdPartition, str] = {}
        for name, numbers in wanted.items():
            topic = self._metadata.topics.get(name)
            for number in numbers:
                topics[name][number] = ShareOffset()
                if topic is not None and 0 <= number < len(topic.partitions):
                    asked[TopicIdPartition(topic.topic_id, number)] = name

        def done(offsets: Offsets) -> None:
            for partition, offset in offsets.items():
                topics[asked[partition]][partition.partition] = offset
            reply(OffsetsResult(topics=tuple(topics.items())))

        self.states.read(group_id, asked, done)

    def alter_offsets(self, group_id: str, given: NewOffsets, reply: OffsetsReply) -> None:
        """Set where an empty group begins with partitions."""
        try:
            group = self._require_empty(group_id)
        except GroupError as error:
            self._refuse(reply, error)
            return
        topics: dict[str, dict[int, ShareOffset]] = {name: {} for name in given}
        starts: dict[TopicIdPartition, int] = {}
        for name, offsets in given.items():
            topic = self._metadata.topics.get(name)
            for number, offset in offsets.items():
                if topic is None or not 0 <= number < len(topic.partitions):
                    topics[name][number] = ShareOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    topics[name][number] = ShareOffset()
                    starts[TopicIdPartition(topic.topic_id, number)] = offset

        def done(results: Offsets) -> None:
            for partition, offset in results.items():
                name = self._metadata.topic_name(partition.topic_id)
                if name is not None:
                    topics[name][partition.partition] = offset
            reply(OffsetsResult(topics=tuple(topics.items())))

        # As in Kafka, what is altered is stored in the next epoch of the group.
        self._members.begin_epoch(group, lambda _error: self.states.store_all(group, starts, done))

    def delete_offsets(self, group_id: str, names: Iterable[str], reply: OffsetsReply) -> None:
        """Forget where an empty group begins with topics; each result is of partition -1."""
        try:
            group = self._require_empty(group_id)
        except GroupError as error:
            self._refuse(reply, error)
            return
        topics: dict[str, dict[int, ShareOffset]] = {}
        by_id: dict[object, str] = {}
        known = {
            each.topic_id
            for each in group.states.initialized_partitions | group.states.initializing
        }
        for name in names:
            topic: Topic | None = self._metadata.topics.get(name)
            if topic is None or topic.topic_id not in known:
                topics[name] = {-1: ShareOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
            else:
                topics[name] = {-1: ShareOffset()}
                by_id[topic.topic_id] = name

        def done(results: Offsets) -> None:
            for partition, offset in results.items():
                if offset.error is not ErrorCode.NONE:
                    topics[by_id[partition.topic_id]] = {-1: offset}
            reply(OffsetsResult(topics=tuple(topics.items())))

        self.states.delete(group, frozenset(known & by_id.keys()), done)

    def _require_empty(self, group_id: str) -> ShareGroup:
        group = self._members.present_group(group_id)
        if not group.is_empty:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP, group_id, f"Group {group_id} is not empty.")
        return group

    def _refuse(self, reply: OffsetsReply, error: GroupError) -> None:
        self._actions.add(partial(reply, OffsetsResult(error.code, error.message)))

    def delete_states(self, group: ShareGroup, done: Callable[[], object]) -> None:
        """Delete all that is stored of a group's partitions, before the group is deleted."""
        known = frozenset(
            each.topic_id
            for each in group.states.initialized_partitions | group.states.initializing
        )
        self.states.delete(group, known, lambda _offsets: done())

    # -- loading, time and topics

    def load(self, group: ShareGroup) -> None:
        for member_id in group.members:
            self._members.expect(group, member_id)

    def unload(self, group: ModernGroup) -> None:
        self.timers.cancel_group(group)
        for waiting in group.writes:
            for reply in waiting:
                self._actions.add(partial(reply, ErrorCode.NOT_COORDINATOR))
            waiting.clear()
        group.writes.clear()

    def forget_topics(self, groups: Iterable[object]) -> None:
        for group in groups:
            if isinstance(group, ShareGroup):
                self.states.forget_topics(group)

    def _expire(self, group: ModernGroup, member_id: str, _kind: str) -> None:
        assert isinstance(group, ShareGroup)
        self._members.expire(group, member_id)
