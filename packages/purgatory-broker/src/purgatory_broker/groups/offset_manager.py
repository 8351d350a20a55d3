"""Handlers of OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from purgatory_broker.groups.group_messages import (
    CommitReply,
    CommitRequest,
    DeleteOffsetsReply,
    FetchedOffsets,
    GroupError,
    RemovalResult,
    coordinator_error,
)
from purgatory_broker.groups.group_records import OffsetKey, OffsetValue
from purgatory_broker.groups.shards import CommittedOffsets, Record, Shard, Shards

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class OffsetManager:
    """Stores, reads and removes committed offsets, visible once a record is replicated."""

    shards: Shards
    actions: ActionQueue
    #: Java's chars, of UTF-16.
    max_metadata_chars: int
    now_ms: Callable[[], int]
    note_heartbeat: Callable[[Group, str, int], None]

    # -- OffsetCommit

    def commit(self, request: CommitRequest, reply: CommitReply) -> None:
        shard = self.shards.shard_of(request.group_id)
        self._validate_commit(shard.groups.get(request.group_id), request)
        now_ms = self.now_ms()
        expire_ms = -1 if request.retention_ms == -1 else now_ms + request.retention_ms
        # Kafka compares the limit with the number of Java chars, which have two bytes.
        max_bytes = 2 * self.max_metadata_chars
        errors = tuple(
            ErrorCode.OFFSET_METADATA_TOO_LARGE
            if len(offset.metadata.encode("utf-16-be")) > max_bytes
            else ErrorCode.NONE
            for offset in request.offsets
        )
        values = [
            (
                OffsetKey(request.group_id, offset.topic, offset.partition),
                OffsetValue(offset.offset, offset.leader_epoch, offset.metadata, now_ms, expire_ms),
            )
            for offset, error in zip(request.offsets, errors, strict=True)
            if error is ErrorCode.NONE
        ]
        if values:
            self.shards.append(
                shard, [*values], partial(self._committed, shard, values, errors, reply)
            )
        else:
            self.actions.add(partial(reply, errors))

    def _validate_commit(self, group: Group | None, request: CommitRequest) -> None:
        """Check that the sender may commit, and count the request as a heartbeat of a member."""
        group_id, generation = request.group_id, request.generation_id
        if group is None:
            if generation >= 0:
                if request.knows_group_id_not_found:
                    raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, group_id)
                raise GroupError(ErrorCode.ILLEGAL_GENERATION, group_id)
            return
        if generation < 0 and group.state is GroupState.EMPTY:
            return
        if generation < 0 and not request.member_id and request.instance_id is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group_id)
        member = group.validate_member(request.member_id, request.instance_id)
        if generation != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group_id)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The member knows the generation, but not its assignment in it.
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, group_id)
        self.note_heartbeat(group, member.member_id, member.session_timeout_ms)

    def _committed(
        self,
        shard: Shard,
        values: list[tuple[OffsetKey, OffsetValue]],
        errors: tuple[ErrorCode, ...],
        reply: CommitReply,
        error: ErrorCode,
    ) -> None:
        if error is not ErrorCode.NONE:
            errors = (coordinator_error(error),) * len(errors)
        else:
            for key, value in values:
                shard.put_offset(key, value, self.now_ms())
        self.actions.add(partial(reply, errors))

    # -- OffsetFetch

    def fetch(
        self, group_id: str, requested: Iterable[tuple[str, Sequence[int]]] | None
    ) -> FetchedOffsets:
        try:
            shard = self.shards.shard_of(group_id)
        except GroupError as error:
            return FetchedOffsets(error.code)
        offsets = shard.offsets if group_id in shard.groups else CommittedOffsets()
        if requested is None:
            requested = [
                (topic, list(partitions))
                for topic, partitions in offsets.of_group(group_id).items()
            ]
        return FetchedOffsets(
            topics=tuple(
                (topic, tuple((index, offsets.get(group_id, topic, index)) for index in partitions))
                for topic, partitions in requested
            )
        )

    # -- OffsetDelete

    def delete(
        self, group_id: str, partitions: Sequence[tuple[str, int]], reply: DeleteOffsetsReply
    ) -> None:
        if not group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID, group_id)
        shard = self.shards.shard_of(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, group_id)
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP, group_id)
        subscribed = group.subscribed_topics()
        errors = tuple(
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if subscribed is None or topic in subscribed
            else ErrorCode.NONE
            for topic, _ in partitions
        )
        removed = [
            OffsetKey(group_id, topic, index)
            for (topic, index), error in zip(partitions, errors, strict=True)
            if error is ErrorCode.NONE and shard.offsets.get(group_id, topic, index) is not None
        ]
        result = RemovalResult(parts=errors)

        def deleted(error: ErrorCode) -> None:
            failed = error is not ErrorCode.NONE
            done = RemovalResult(coordinator_error(error)) if failed else result
            self.actions.add(partial(reply, done))

        if removed:
            self.remove(shard, removed, [], deleted)
        else:
            deleted(ErrorCode.NONE)

    # -- removal

    def remove(
        self,
        shard: Shard,
        keys: list[OffsetKey],
        other_records: list[Record],
        done: Callable[[ErrorCode], object],
    ) -> None:
        """Remove committed offsets once their tombstones are replicated."""

        def tombstones_stored(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for key in keys:
                    shard.offsets.remove(key)
            done(error)

        self.shards.append(
            shard, [*((key, None) for key in keys), *other_records], tombstones_stored
        )

    def forget_topic(self, topic: str) -> None:
        for shard in self.shards:
            keys = shard.offsets.keys_of_topic(topic)
            if keys:
                self.remove(shard, keys, [], partial(self._topic_forgotten, topic, shard.partition))

    def _topic_forgotten(self, topic: str, partition: int, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            logger.error(
                "cannot remove the offsets of deleted topic %r from partition %d: %s",
                topic,
                partition,
                error.name,
            )
