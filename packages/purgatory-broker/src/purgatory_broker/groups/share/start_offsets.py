"""Where share groups begin with partitions, as administrators ask and set it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.groups.modern.share_group import ShareGroup
from purgatory_broker.groups.modern.subscribed_topics import TopicsMetadata
from purgatory_broker.groups.shards import Shards
from purgatory_broker.groups.share.heartbeat import ShareHeartbeatHandler
from purgatory_broker.groups.share.messages import OffsetsReply, OffsetsResult, ShareOffset
from purgatory_broker.groups.share.share_states import Offsets, ShareGroupStates

#: The start offsets that an administrator sets, by topic and partition.
NewOffsets = Mapping[str, Mapping[int, int]]


@dataclass(slots=True, eq=False)
class StartOffsets:
    shards: Shards
    metadata: TopicsMetadata
    members: ShareHeartbeatHandler
    states: ShareGroupStates

    def describe(
        self,
        group_id: str,
        wanted: Mapping[str, Iterable[int]] | None,
        reply: OffsetsReply,
    ) -> None:
        """Answer where a group begins with partitions; None asks for all that have a state.

        As in Kafka, a group or a partition that does not exist has no start offset, and no error.
        """
        found = self.shards.shard_of(group_id).groups.get(group_id)
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
            topic = self.metadata.topics.get(name)
            for number in numbers:
                topics[name][number] = ShareOffset()
                if topic is not None and 0 <= number < len(topic.partitions):
                    asked[TopicIdPartition(topic.topic_id, number)] = name

        def done(offsets: Offsets) -> None:
            for partition, offset in offsets.items():
                topics[asked[partition]][partition.partition] = offset
            reply(OffsetsResult(topics=tuple(topics.items())))

        self.states.read(group_id, asked, done)

    def alter(self, group_id: str, given: NewOffsets, reply: OffsetsReply) -> None:
        """Set where an empty group begins with partitions; there may be none yet."""
        self.members.create_group(group_id)
        group = self._require_empty(group_id)
        topics: dict[str, dict[int, ShareOffset]] = {name: {} for name in given}
        starts: dict[TopicIdPartition, int] = {}
        for name, offsets in given.items():
            topic = self.metadata.topics.get(name)
            for number, offset in offsets.items():
                if topic is None or not 0 <= number < len(topic.partitions):
                    topics[name][number] = ShareOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    topics[name][number] = ShareOffset()
                    starts[TopicIdPartition(topic.topic_id, number)] = offset

        def done(results: Offsets) -> None:
            for partition, offset in results.items():
                name = self.metadata.topic_name(partition.topic_id)
                if name is not None:
                    topics[name][partition.partition] = offset
            reply(OffsetsResult(topics=tuple(topics.items())))

        # As in Kafka, what is altered is stored in the next epoch of the group.
        self.members.begin_epoch(group, lambda _error: self.states.store_all(group, starts, done))

    def delete(self, group_id: str, names: Iterable[str], reply: OffsetsReply) -> None:
        """Forget where an empty group begins with topics; each result is of partition -1."""
        group = self._require_empty(group_id)
        topics: dict[str, dict[int, ShareOffset]] = {}
        by_id: dict[UUID, str] = {}
        known = _topics_with_states(group)
        for name in names:
            topic = self.metadata.topics.get(name)
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

        self.states.delete(group, known & by_id.keys(), done)

    def delete_all(self, group: ShareGroup, done: Callable[[ErrorCode], object]) -> None:
        """Delete all that is stored of a group's partitions; `done` gets an error of one."""

        def deleted(results: Offsets) -> None:
            errors = (offset.error for offset in results.values() if offset.error)
            done(next(errors, ErrorCode.NONE))

        self.states.delete(group, _topics_with_states(group), deleted)

    def _require_empty(self, group_id: str) -> ShareGroup:
        group = self.members.present_group(group_id)
        if not group.is_empty:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP, group_id, f"Group {group_id} is not empty.")
        return group


def _topics_with_states(group: ShareGroup) -> frozenset[UUID]:
    states = group.states
    return frozenset(each.topic_id for each in states.initialized_partitions | states.initializing)
