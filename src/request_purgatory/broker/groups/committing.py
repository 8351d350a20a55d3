"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafka.protocol.consumer import OffsetCommitResponse, OffsetDeleteResponse, OffsetFetchResponse

from request_purgatory.broker.groups.errors import GroupError, coordinator_error
from request_purgatory.broker.groups.group import CONSUMER, Group, GroupState
from request_purgatory.broker.groups.member import Reply, has_version
from request_purgatory.broker.groups.offsets import Offsets
from request_purgatory.broker.groups.rebalancer import Rebalancer
from request_purgatory.broker.groups.records import OffsetKey, OffsetValue
from request_purgatory.broker.groups.shards import Record, Shard
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

_CommitTopic = OffsetCommitResponse.OffsetCommitResponseTopic
_DeleteTopic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_FetchGroup = OffsetFetchResponse.OffsetFetchResponseGroup


class Committing:
    """Stores, reads and removes committed offsets. One is visible once its record is replicated."""

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer
        self._shards = rebalancer.shards

    # -- OffsetCommit

    def commit(self, request: Any, reply: Reply) -> None:
        """Handle an OffsetCommit request; GroupError where all of it is refused."""
        shard = self._shards.shard_of(request.group_id)
        self._validate_commit(shard.groups.get(request.group_id), request)
        now_ms = self._rebalancer.now_ms()
        expire_ms = -1 if request.retention_time_ms == -1 else now_ms + request.retention_time_ms
        longest = self._rebalancer.settings.offset_metadata_max_bytes
        values: list[tuple[OffsetKey, OffsetValue]] = []

        def take(topic: Any, partition: Any) -> ErrorCode:
            metadata = partition.committed_metadata or ""
            if (
                len(metadata.encode("utf-16-be")) > 2 * longest
            ):  # Java's characters are of two bytes.
                return ErrorCode.OFFSET_METADATA_TOO_LARGE
            key = OffsetKey(request.group_id, topic.name, partition.partition_index)
            leader_epoch = partition.committed_leader_epoch
            values.append(
                (
                    key,
                    OffsetValue(
                        partition.committed_offset, leader_epoch, metadata, now_ms, expire_ms
                    ),
                )
            )
            return ErrorCode.NONE

        response = commit_response(request, take)
        if values:
            self._shards.append(
                shard, [*values], partial(self._committed, shard, values, request, response, reply)
            )
        else:
            self._rebalancer.reply(reply, response)

    def _validate_commit(self, group: Group | None, request: Any) -> None:
        """A commit is a sign of its member's life.

        GroupError if it is not from a member, where only members may commit.
        """
        group_id, generation = request.group_id, request.generation_id_or_member_epoch
        if group is None:
            if generation >= 0:
                is_known_error = has_version(request, 9)
                raise GroupError(
                    ErrorCode.GROUP_ID_NOT_FOUND
                    if is_known_error
                    else ErrorCode.ILLEGAL_GENERATION,
                    group_id,
                )
            return
        if generation < 0 and group.state is GroupState.EMPTY:
            return
        if generation < 0 and not request.member_id and request.group_instance_id is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group_id)
        member = group.validate_member(request.member_id, request.group_instance_id)
        if generation != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group_id)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # It knows the generation, but not what it is to read in it.
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, group_id)
        self._rebalancer.expect_heartbeat(group, member.member_id, member.session_timeout_ms)

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
        self._rebalancer.reply(reply, response)

    # -- OffsetFetch

    def fetch(self, request: Any) -> Any:
        """The response to an OffsetFetch request.

        Of one group up to version 7, of several from then on.
        """
        if has_version(request, 8):
            groups = [self._fetch_group(each.group_id, each.topics) for each in request.groups]
            return OffsetFetchResponse(throttle_time_ms=0, groups=groups)
        group = self._fetch_group(request.group_id, request.topics)
        topics = group.topics
        if group.error_code and not has_version(request, 2):
            # Version 1 has no error but that of a partition.
            topics = _fetched_topics(
                _asked(request.topics),
                lambda _topic, index: _fetched(index, None, group.error_code),
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

    def _fetch_group(self, group_id: str, asked: Any) -> Any:
        """A group's part of a response; `asked` of None is all that it has committed."""
        try:
            shard = self._shards.shard_of(group_id)
        except GroupError as error:
            return _FetchGroup(group_id=group_id, topics=[], error_code=error.code)
        offsets = shard.offsets if group_id in shard.groups else Offsets()
        if asked is None:
            wanted = [
                (topic, list(partitions))
                for topic, partitions in offsets.of_group(group_id).items()
            ]
        else:
            wanted = _asked(asked)
        topics = _fetched_topics(
            wanted, lambda topic, index: _fetched(index, offsets.get(group_id, topic, index))
        )
        return _FetchGroup(group_id=group_id, topics=topics, error_code=ErrorCode.NONE)

    # -- OffsetDelete

    def delete(self, request: Any, reply: Reply) -> None:
        """Handle an OffsetDelete request; GroupError where all of it is refused."""
        if not request.group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID, request.group_id)
        shard = self._shards.shard_of(request.group_id)
        group = shard.groups.get(request.group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, request.group_id)
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP, request.group_id)
        gone: list[OffsetKey] = []
        subscribed = group.subscribed_topics()

        def take(topic: str, partition: int) -> ErrorCode:
            if subscribed is None or topic in subscribed:
                return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if shard.offsets.get(group.group_id, topic, partition) is not None:
                gone.append(OffsetKey(group.group_id, topic, partition))
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
                            error_code=take(topic.name, each.partition_index),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )
        if gone:
            self.remove(shard, gone, [], lambda error: self._deleted(error, response, reply))
        else:
            self._rebalancer.reply(reply, response)

    def _deleted(self, error: ErrorCode, response: Any, reply: Reply) -> None:
        if error is not ErrorCode.NONE:
            response = OffsetDeleteResponse(
                error_code=coordinator_error(error), throttle_time_ms=0, topics=[]
            )
        self._rebalancer.reply(reply, response)

    # -- removal

    def remove(
        self,
        shard: Shard,
        keys: list[OffsetKey],
        more: list[Record],
        done: Callable[[ErrorCode], object],
    ) -> None:
        """Remove committed offsets, once their tombstones, and `more` records with them, are replicated."""

        def removed(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for key in keys:
                    shard.offsets.remove(key)
            done(error)

        self._shards.append(shard, [*((key, None) for key in keys), *more], removed)

    def forget_topic(self, topic: str) -> None:
        """Remove what was committed for a topic that is deleted."""
        for shard in self._shards:
            keys = shard.offsets.keys_of_topic(topic)
            if keys:
                self.remove(shard, keys, [], partial(self._forgotten, topic, shard.partition))

    def _forgotten(self, topic: str, partition: int, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            logger.error(
                "offsets of deleted topic %r stay in partition %d: %s", topic, partition, error.name
            )


def commit_response(request: Any, error_of: Callable[[Any, Any], ErrorCode]) -> Any:
    """An OffsetCommitResponse with an error, or none, for each partition of the request."""
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


def _asked(topics: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, list(topic.partition_indexes)) for topic in topics or ()]


def _fetched_topics(
    wanted: Iterable[tuple[str, list[int]]], fetched: Callable[[str, int], Any]
) -> list[Any]:
    return [
        _FetchGroup.OffsetFetchResponseTopics(
            name=topic, partitions=[fetched(topic, index) for index in partitions]
        )
        for topic, partitions in wanted
    ]


def _fetched(index: int, value: OffsetValue | None, error: int = ErrorCode.NONE) -> Any:
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
