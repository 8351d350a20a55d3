"""Handlers of OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafka.protocol.consumer import OffsetCommitResponse, OffsetDeleteResponse, OffsetFetchResponse

from request_purgatory.broker.groups.committed_offsets import CommittedOffsets
from request_purgatory.broker.groups.errors import GroupError, coordinator_error
from request_purgatory.broker.groups.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from request_purgatory.broker.groups.rebalancer import Rebalancer
from request_purgatory.broker.groups.records import OffsetKey, OffsetValue
from request_purgatory.broker.groups.requests import Reply, version_at_least
from request_purgatory.broker.groups.shards import Record, Shard
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

#: The first OffsetCommit version whose clients know GROUP_ID_NOT_FOUND.
GROUP_ID_NOT_FOUND_SINCE = 9
#: The first OffsetFetch version whose response has an error of the group.
GROUP_ERROR_SINCE = 2
#: The first OffsetFetch version that can ask for several groups.
SEVERAL_GROUPS_SINCE = 8

_CommitTopic = OffsetCommitResponse.OffsetCommitResponseTopic
_DeleteTopic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_FetchGroup = OffsetFetchResponse.OffsetFetchResponseGroup


class OffsetManager:
    """Stores, reads and removes committed offsets.

    An offset is visible once its record is replicated.
    """

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer
        self._shards = rebalancer.shards

    # -- OffsetCommit

    def commit(self, request: Any, reply: Reply) -> None:
        """Handle an OffsetCommit request.

        Args:
            request: The decoded request.
            reply: Called with the response when the offsets are replicated.

        Raises:
            GroupError: The whole request is rejected.
        """
        shard = self._shards.shard_of(request.group_id)
        self._validate_commit(shard.groups.get(request.group_id), request)
        now_ms = self._rebalancer.now_ms()
        expire_ms = -1 if request.retention_time_ms == -1 else now_ms + request.retention_time_ms
        max_metadata_chars = self._rebalancer.settings.offset_metadata_max_bytes
        values: list[tuple[OffsetKey, OffsetValue]] = []

        def add_offset(topic: Any, partition: Any) -> ErrorCode:
            metadata = partition.committed_metadata or ""
            # Kafka compares the limit with the number of Java chars, which have two bytes.
            if len(metadata.encode("utf-16-be")) > 2 * max_metadata_chars:
                return ErrorCode.OFFSET_METADATA_TOO_LARGE
            key = OffsetKey(request.group_id, topic.name, partition.partition_index)
            offset, leader_epoch = partition.committed_offset, partition.committed_leader_epoch
            values.append((key, OffsetValue(offset, leader_epoch, metadata, now_ms, expire_ms)))
            return ErrorCode.NONE

        response = commit_response(request, add_offset)
        if values:
            self._shards.append(
                shard, [*values], partial(self._committed, shard, values, request, response, reply)
            )
        else:
            self._rebalancer.reply_later(reply, response)

    def _validate_commit(self, group: Group | None, request: Any) -> None:
        """Check that the sender may commit, and count the request as a heartbeat of a member.

        Raises:
            GroupError: Only members may commit, and the sender is not one of this generation.
        """
        group_id, generation = request.group_id, request.generation_id_or_member_epoch
        if group is None:
            if generation >= 0:
                if version_at_least(request, GROUP_ID_NOT_FOUND_SINCE):
                    raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, group_id)
                raise GroupError(ErrorCode.ILLEGAL_GENERATION, group_id)
            return
        if generation < 0 and group.state is GroupState.EMPTY:
            return
        if generation < 0 and not request.member_id and request.group_instance_id is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group_id)
        member = group.validate_member(request.member_id, request.group_instance_id)
        if generation != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group_id)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The member knows the generation, but not its assignment in it.
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, group_id)
        self._rebalancer.reschedule_heartbeat(group, member.member_id, member.session_timeout_ms)

    def _committed(
        self,
        shard: Shard,
        values: list[tuple[OffsetKey, OffsetValue]],
        request: Any,
        response: Any,
        reply: Reply,
        error: ErrorCode,
    ) -> None:
        if error is not ErrorCode.NONE:
            response = commit_response(request, lambda _topic, _partition: coordinator_error(error))
        else:
            for key, value in values:
                shard.put_offset(key, value, self._rebalancer.now_ms())
        self._rebalancer.reply_later(reply, response)

    # -- OffsetFetch

    def fetch(self, request: Any) -> Any:
        """Handle an OffsetFetch request, of one group up to version 7 and of several since.

        Args:
            request: The decoded request.

        Returns:
            The response.
        """
        if version_at_least(request, SEVERAL_GROUPS_SINCE):
            groups = [self._fetch_group(each.group_id, each.topics) for each in request.groups]
            return OffsetFetchResponse(throttle_time_ms=0, groups=groups)
        group = self._fetch_group(request.group_id, request.topics)
        topics = group.topics
        if group.error_code and not version_at_least(request, GROUP_ERROR_SINCE):
            topics = _topic_responses(
                _requested(request.topics),
                lambda _topic, index: _partition_response(index, None, group.error_code),
            )
        return OffsetFetchResponse(
            throttle_time_ms=0,
            error_code=group.error_code,
            topics=[
                OffsetFetchResponse.OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponse.OffsetFetchResponseTopic.OffsetFetchResponsePartition(
                            **_fields(partition)
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in topics
            ],
        )

    def _fetch_group(self, group_id: str, requested: Any) -> Any:
        """Return a group's part of an OffsetFetch response.

        Args:
            group_id: The group's id.
            requested: The topics of the request; None for all committed offsets.

        Returns:
            The part of a response of version 8 or later.
        """
        try:
            shard = self._shards.shard_of(group_id)
        except GroupError as error:
            return _FetchGroup(group_id=group_id, topics=[], error_code=error.code)
        offsets = shard.offsets if group_id in shard.groups else CommittedOffsets()
        if requested is None:
            wanted = [
                (topic, list(partitions))
                for topic, partitions in offsets.of_group(group_id).items()
            ]
        else:
            wanted = _requested(requested)
        topics = _topic_responses(
            wanted,
            lambda topic, index: _partition_response(index, offsets.get(group_id, topic, index)),
        )
        return _FetchGroup(group_id=group_id, topics=topics, error_code=ErrorCode.NONE)

    # -- OffsetDelete

    def delete(self, request: Any, reply: Reply) -> None:
        """Handle an OffsetDelete request.

        Args:
            request: The decoded request.
            reply: Called with the response when the tombstones are replicated.

        Raises:
            GroupError: The whole request is rejected.
        """
        if not request.group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID, request.group_id)
        shard = self._shards.shard_of(request.group_id)
        group = shard.groups.get(request.group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, request.group_id)
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP, request.group_id)
        removed: list[OffsetKey] = []
        subscribed = group.subscribed_topics()

        def remove_offset(topic: str, partition: int) -> ErrorCode:
            if subscribed is None or topic in subscribed:
                return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if shard.offsets.get(group.group_id, topic, partition) is not None:
                removed.append(OffsetKey(group.group_id, topic, partition))
            return ErrorCode.NONE

        response = OffsetDeleteResponse(
            error_code=ErrorCode.NONE,
            throttle_time_ms=0,
            topics=[
                _DeleteTopic(
                    name=topic.name,
                    partitions=[
                        _DeleteTopic.OffsetDeleteResponsePartition(
                            partition_index=each.partition_index,
                            error_code=remove_offset(topic.name, each.partition_index),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )
        if removed:
            self.remove(shard, removed, [], lambda error: self._deleted(error, response, reply))
        else:
            self._rebalancer.reply_later(reply, response)

    def _deleted(self, error: ErrorCode, response: Any, reply: Reply) -> None:
        if error is not ErrorCode.NONE:
            response = OffsetDeleteResponse(
                error_code=coordinator_error(error), throttle_time_ms=0, topics=[]
            )
        self._rebalancer.reply_later(reply, response)

    # -- removal

    def remove(
        self,
        shard: Shard,
        keys: list[OffsetKey],
        other_records: list[Record],
        done: Callable[[ErrorCode], object],
    ) -> None:
        """Remove committed offsets once their tombstones are replicated.

        Args:
            shard: The offsets' shard.
            keys: The offsets' keys.
            other_records: Records to append in the same batch.
            done: Called with NONE when the offsets are removed, or with an error.
        """

        def tombstones_stored(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for key in keys:
                    shard.offsets.remove(key)
            done(error)

        self._shards.append(
            shard, [*((key, None) for key in keys), *other_records], tombstones_stored
        )

    def forget_topic(self, topic: str) -> None:
        """Remove all committed offsets of a deleted topic."""
        for shard in self._shards:
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


def commit_response(request: Any, error_of: Callable[[Any, Any], ErrorCode]) -> Any:
    """Return an OffsetCommitResponse.

    Args:
        request: The decoded request.
        error_of: Returns the error code of a topic and partition of the request.

    Returns:
        The response.
    """
    return OffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            _CommitTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _CommitTopic.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=error_of(topic, partition),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _requested(topics: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, list(topic.partition_indexes)) for topic in topics or ()]


def _topic_responses(
    wanted: Iterable[tuple[str, list[int]]], partition_response: Callable[[str, int], Any]
) -> list[Any]:
    return [
        _FetchGroup.OffsetFetchResponseTopics(
            name=topic, partitions=[partition_response(topic, index) for index in partitions]
        )
        for topic, partitions in wanted
    ]


def _partition_response(index: int, value: OffsetValue | None, error: int = ErrorCode.NONE) -> Any:
    return _FetchGroup.OffsetFetchResponseTopics.OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=-1 if value is None else value.offset,
        committed_leader_epoch=-1 if value is None else value.leader_epoch,
        metadata="" if value is None else value.metadata,
        error_code=error,
    )


def _fields(partition: Any) -> dict[str, Any]:
    names = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "metadata",
        "error_code",
    )
    return {name: getattr(partition, name) for name in names}
