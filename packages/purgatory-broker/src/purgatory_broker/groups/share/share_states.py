"""The states of a share group's partitions: initialized for members, and deleted with the group."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.change import Change
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.modern.partitions import NO_PARTITIONS, Assignment, TopicIdPartition
from purgatory_broker.groups.modern.record_values import ShareStates
from purgatory_broker.groups.modern.records import RecordKind
from purgatory_broker.groups.modern.share_group import ShareGroup
from purgatory_broker.groups.modern.subscribed_topics import TopicsMetadata
from purgatory_broker.groups.shards import Shards
from purgatory_broker.groups.share.messages import ShareOffset, ShareOffsets

logger = logging.getLogger(__name__)

#: The start offset of a share partition whose first leader is to find it.
_UNKNOWN_START = -1

Offsets = dict[TopicIdPartition, ShareOffset]


@dataclass(slots=True, eq=False)
class ShareGroupStates:
    """Initializes states in three steps, as Kafka does.

    1. A record says which partitions are being initialized.
    2. Their share coordinators store that they begin, at an offset that their leader finds.
    3. A record says which partitions are initialized. Members are assigned those.

    If the group coordinator changes after the first, its successor does the second again.
    """

    shards: Shards
    actions: ActionQueue
    metadata: TopicsMetadata
    offsets: ShareOffsets

    def begin(self, change: Change, subscribed: Assignment) -> Assignment:
        """Note the subscribed partitions without a state; return those to be initialized."""
        group = change.group
        assert isinstance(group, ShareGroup)
        states = group.states
        missing = subscribed - states.initialized_partitions - group.requested
        if missing:
            self._put(change, replace(states, initializing=states.initializing | missing))
            group.requested |= missing
        return missing

    def initialize(self, group: ShareGroup, partitions: Assignment) -> None:
        if partitions:
            self.store_all(group, dict.fromkeys(partitions, _UNKNOWN_START), lambda _offsets: None)

    def store_all(
        self,
        group: ShareGroup,
        starts: dict[TopicIdPartition, int],
        done: Callable[[Offsets], object],
    ) -> None:
        """Let share coordinators store where partitions begin, and note which have."""

        def stored(results: Offsets) -> None:
            group.requested -= starts.keys()
            ready = {each for each, offset in results.items() if not offset.error}
            for each in starts.keys() - ready:
                logger.warning(
                    "group %r: cannot initialize partition %d of topic %s: %s",
                    group.group_id,
                    each.partition,
                    each.topic_id,
                    results[each].error.name,
                )
            self._note(
                group,
                lambda states: replace(
                    states,
                    initializing=states.initializing - starts.keys(),
                    initialized_partitions=states.initialized_partitions | ready,
                ),
                lambda _error: done(results),
            )

        epoch = group.epoch
        self._for_all(
            starts,
            lambda each, reply: self.offsets.initialize(
                group.group_id, each, epoch, starts[each], reply
            ),
            stored,
        )

    def delete(
        self, group: ShareGroup, topic_ids: frozenset[UUID], done: Callable[[Offsets], object]
    ) -> None:
        """Delete the states of some topics, in the same steps."""
        states = group.states
        partitions = frozenset(
            each
            for each in states.initialized_partitions | states.initializing
            if each.topic_id in topic_ids
        )

        def deleted(results: Offsets) -> None:
            gone = {each for each, offset in results.items() if not offset.error}
            self._note(
                group,
                lambda states: replace(
                    states,
                    initialized_partitions=states.initialized_partitions - gone,
                    deleting=states.deleting - topic_ids,
                ),
                lambda _error: done(results),
            )

        def noted(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                done(dict.fromkeys(partitions, ShareOffset(error)))
                return
            self._for_all(
                partitions,
                lambda each, reply: self.offsets.delete(group.group_id, each, reply),
                deleted,
            )

        self._note(
            group,
            lambda states: replace(
                states,
                initializing=states.initializing - partitions,
                deleting=states.deleting | topic_ids,
            ),
            noted,
        )

    def read(
        self,
        group_id: str,
        partitions: Iterable[TopicIdPartition],
        done: Callable[[Offsets], object],
    ) -> None:
        self._for_all(
            partitions, lambda each, reply: self.offsets.read(group_id, each, reply), done
        )

    def forget_topics(self, group: ShareGroup) -> None:
        """Remove the topics that do not exist any more."""
        known = group.states.initialized_partitions | group.states.initializing
        gone = {each.topic_id for each in known if self.metadata.topic_name(each.topic_id) is None}
        if gone:
            self._note(group, partial(_without, gone), lambda _error: None)

    # -- help

    def _for_all(
        self,
        partitions: Iterable[TopicIdPartition],
        ask: Callable[[TopicIdPartition, Callable[[ShareOffset], None]], None],
        done: Callable[[Offsets], object],
    ) -> None:
        wanted = list(partitions)
        results: Offsets = {}

        def ended(partition: TopicIdPartition, offset: ShareOffset) -> None:
            results[partition] = offset
            if len(results) == len(wanted):
                done(results)

        if not wanted:
            done({})
        for each in wanted:
            ask(each, partial(ended, each))

    def _note(
        self,
        group: ShareGroup,
        update: Callable[[ShareStates], ShareStates],
        done: Callable[[ErrorCode], object],
    ) -> None:
        """Store a change of the group's states; `done` gets NOT_COORDINATOR if it has moved."""
        with self.actions:
            try:
                shard = self.shards.shard_of(group.group_id)
            except GroupError as error:
                self.actions.add(partial(done, error.code))
                return
            if shard.groups.get(group.group_id) is not group:
                self.actions.add(partial(done, ErrorCode.NOT_COORDINATOR))
                return
            change = Change(self.shards, shard, group)
            self._put(change, update(group.states))
            change.append(self.actions, done)

    def _put(self, change: Change, states: ShareStates) -> None:
        """Put states with the names of their topics; those of deleted topics are as before."""
        before = change.group
        assert isinstance(before, ShareGroup)
        known = dict(before.states.names)
        topic_ids = {each.topic_id for each in states.initializing | states.initialized_partitions}
        names = frozenset(
            (topic_id, self.metadata.topic_name(topic_id) or known.get(topic_id, ""))
            for topic_id in topic_ids | states.deleting
        )
        named = replace(states, names=names)
        change.put(RecordKind.SHARE_STATES, named if named != ShareStates() else None)


def _without(topic_ids: set[UUID], states: ShareStates) -> ShareStates:
    def kept(partitions: Assignment) -> Assignment:
        left = (each for each in partitions if each.topic_id not in topic_ids)
        return NO_PARTITIONS.union(left)

    return replace(
        states,
        initializing=kept(states.initializing),
        initialized_partitions=kept(states.initialized_partitions),
    )
