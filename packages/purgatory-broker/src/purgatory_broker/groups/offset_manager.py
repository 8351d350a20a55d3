"""Handlers of OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.committed_offsets import CommittedOffsets
from purgatory_broker.groups.consumer.member_epochs import validate_commit, validate_epoch
from purgatory_broker.groups.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from purgatory_broker.groups.group_messages import (
    CommitReply,
    CommitRequest,
    DeleteOffsetsReply,
    FetchedOffsets,
    GroupError,
    OffsetToCommit,
    RemovalResult,
    TransactionalCommit,
    coordinator_error,
)
from purgatory_broker.groups.group_records import OffsetKey, OffsetValue
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.shards import AnyGroup, Record, Shard, Shards
from purgatory_broker.log.verification import VerificationGuard

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
        group = shard.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            validate_commit(
                group,
                request.member_id,
                request.generation_id,
                knows_epochs=request.knows_group_id_not_found,
            )
        else:
            self._validate_commit(_classic(group, request.group_id), request)
        errors, values = self._checked(
            shard, request.group_id, request.offsets, request.retention_ms
        )
        if values:
            self.shards.append(
                shard, [*values], partial(self._committed, shard, values, errors, reply)
            )
        else:
            self.actions.add(partial(reply, errors))

    def _checked(
        self, shard: Shard, group_id: str, offsets: Sequence[OffsetToCommit], retention_ms: int
    ) -> tuple[tuple[ErrorCode, ...], list[tuple[OffsetKey, OffsetValue]]]:
        """Return the error of each offset, and the records of those without one."""
        now_ms = self.now_ms()
        expire_ms = -1 if retention_ms == -1 else now_ms + retention_ms
        # Kafka compares the limit with the number of Java chars, which have two bytes.
        max_bytes = 2 * self.max_metadata_chars
        errors = tuple(
            ErrorCode.OFFSET_METADATA_TOO_LARGE
            if len(offset.metadata.encode("utf-16-be")) > max_bytes
            else ErrorCode.NONE
            for offset in offsets
        )
        values = [
            (
                OffsetKey(group_id, offset.topic, offset.partition),
                OffsetValue(
                    offset.offset,
                    offset.leader_epoch,
                    offset.metadata,
                    now_ms,
                    expire_ms,
                    shard.next_record_number(),
                ),
            )
            for offset, error in zip(offsets, errors, strict=True)
            if error is ErrorCode.NONE
        ]
        return errors, values

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

    # -- TxnOffsetCommit

    def commit_transactional(
        self,
        request: TransactionalCommit,
        guard: VerificationGuard | None,
        reply: CommitReply,
    ) -> None:
        """Append offsets that the marker of the producer's transaction commits or drops.

        They are pending from now on: a consumer of the next generation must not read the offsets
        before them, although their records are not replicated yet.
        """
        shard = self.shards.shard_of(request.group_id)
        group = shard.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            _validate_transactional(_classic(group, request.group_id), request)
        elif (
            request.generation_id >= 0 or request.member_id or request.instance_id is not None
        ):  # Old producers do not name the consumer.
            validate_commit(group, request.member_id, request.generation_id)
        errors, values = self._checked(shard, request.group_id, request.offsets, -1)
        if not values:
            self.actions.add(partial(reply, errors))
            return
        producer_id = request.producer.producer_id
        for key, value in values:
            shard.pending.put(producer_id, key, value)

        def appended(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                shard.note_record(request.group_id, self.now_ms())
                for key, value in values:
                    shard.pending.note_written(producer_id, key, value)
            elif error not in _MAY_BE_WRITTEN:
                for key, value in values:
                    shard.pending.discard(producer_id, key, value)
            failed = error is not ErrorCode.NONE
            results = (coordinator_error(error),) * len(errors) if failed else errors
            self.actions.add(partial(reply, results))

        producer = request.producer._replace(guard=guard)
        self.shards.append(shard, [*values], appended, producer)

    # -- OffsetFetch

    def fetch(
        self,
        group_id: str,
        requested: Iterable[tuple[str, Sequence[int]]] | None,
        *,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> FetchedOffsets:
        """Return the offsets; UNSTABLE_OFFSET_COMMIT for those that a transaction may change."""
        try:
            shard = self.shards.shard_of(group_id)
            group = shard.find(ConsumerGroup, group_id)
            if group is not None and (member_id is not None or member_epoch >= 0):
                validate_epoch(group, member_id or "", member_epoch)
        except GroupError as error:
            return FetchedOffsets(error.code)
        offsets = shard.offsets if group_id in shard.groups else CommittedOffsets()
        if requested is None:
            requested = [
                (topic, list(partitions))
                for topic, partitions in offsets.of_group(group_id).items()
            ]

        def fetched(topic: str, index: int) -> OffsetValue | ErrorCode | None:
            if require_stable and OffsetKey(group_id, topic, index) in shard.pending:
                return ErrorCode.UNSTABLE_OFFSET_COMMIT
            return offsets.get(group_id, topic, index)

        return FetchedOffsets(
            topics=tuple(
                (topic, tuple((index, fetched(topic, index)) for index in partitions))
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
        if not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP, group_id)
        subscribed: frozenset[str] | None
        if isinstance(group, Group):
            subscribed = group.subscribed_topics()
        else:
            subscribed = group.subscribed_topics
        errors = tuple(
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if subscribed is None or topic in subscribed
            else ErrorCode.NONE
            for topic, _ in partitions
        )
        removed = [
            OffsetKey(group_id, topic, index)
            for (topic, index), error in zip(partitions, errors, strict=True)
            if error is ErrorCode.NONE and _has_offset(shard, group_id, topic, index)
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
                    shard.pending.remove(key)
            done(error)

        self.shards.append(
            shard, [*((key, None) for key in keys), *other_records], tombstones_stored
        )

    def forget_topic(self, topic: str) -> None:
        for shard in self.shards:
            keys = shard.offsets.keys_of_topic(topic) + shard.pending.keys_of_topic(topic)
            if keys:
                keys = list(dict.fromkeys(keys))
                self.remove(shard, keys, [], partial(self._topic_forgotten, topic, shard.partition))

    def _topic_forgotten(self, topic: str, partition: int, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            logger.error(
                "cannot remove the offsets of deleted topic %r from partition %d: %s",
                topic,
                partition,
                error.name,
            )


def _classic(group: AnyGroup | None, group_id: str) -> Group | None:
    """Refuse a group whose members commit no offsets."""
    if group is None or isinstance(group, Group):
        return group
    raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, group_id)


#: The errors after which records may be in the log: the marker decides about them.
_MAY_BE_WRITTEN = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def _validate_transactional(group: Group | None, request: TransactionalCommit) -> None:
    """Check that the consumer may commit; old producers do not name it."""
    group_id, generation = request.group_id, request.generation_id
    if group is None:
        if generation >= 0:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group_id)
        return
    if generation < 0 and group.state is GroupState.EMPTY:
        return
    if generation >= 0 or request.member_id or request.instance_id is not None:
        group.validate_member(request.member_id, request.instance_id)
        if generation != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group_id)


def _has_offset(shard: Shard, group_id: str, topic: str, index: int) -> bool:
    committed = shard.offsets.get(group_id, topic, index) is not None
    return committed or OffsetKey(group_id, topic, index) in shard.pending
