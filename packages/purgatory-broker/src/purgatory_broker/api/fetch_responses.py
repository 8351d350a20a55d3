"""The responses of Fetch: what a session's client has not been told, encoded once for many."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.fetch import (
    FETCH_MESSAGES,
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from purgatory_broker._wire.writer import Writer
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.replication.delayed_fetch import FetchedPartition, SharedResult
from purgatory_broker.replication.fetch_sessions import (
    NO_SESSION,
    FetchSession,
    changed_partitions,
)
from purgatory_broker.request_context import RequestContext

#: The first versions with fetch sessions (KIP-227), with topic ids instead of names (KIP-516), and
#: with the current leader in the response (KIP-951).
SESSION_SINCE = 7
TOPIC_ID_SINCE = 13
CURRENT_LEADER_SINCE = 16

_WRONG_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
#: The errors for partitions of topic ids that do not exist.
UnknownTopics: TypeAlias = list[tuple[uuid.UUID | None, FetchedPartition]]


class _SharedTopics(list[FetchableTopicResponse]):
    """The topics of equal responses, encoded once; must not be changed."""

    __slots__ = ("encoded",)

    def __init__(self, topics: Iterable[FetchableTopicResponse]) -> None:
        super().__init__(topics)
        #: The rest of the response, from the topics on.
        self.encoded: bytes | None = None


#: What precedes the topics: the throttle time, the error, and the session's id.
_BEFORE_TOPICS = struct.Struct(">ihi")


def write_response(out: Writer, response: FetchResponse, version: int) -> None:
    topics = response.responses
    if not isinstance(topics, _SharedTopics):
        FETCH_MESSAGES.write_response(out, response, version)
    elif topics.encoded is None:
        begin = len(out) + _BEFORE_TOPICS.size
        FETCH_MESSAGES.write_response(out, response, version)
        topics.encoded = bytes(out[begin:])
    else:
        out += _BEFORE_TOPICS.pack(
            response.throttle_time_ms, response.error_code, response.session_id
        )
        out += topics.encoded


@dataclass(slots=True)
class FetchReply:
    broker: BrokerApi
    context: RequestContext
    session: FetchSession | None
    unknown: UnknownTopics
    missing: Sequence[FetchedPartition]

    def send(self, fetched: list[FetchedPartition]) -> None:
        """Send what has changed in the session; no records while `UnreadResponses` is full."""
        broker, context, session = self.broker, self.context, self.session
        if not broker.has_room_for_records():
            # Copies: other fetches may have the same results.
            fetched = [replace(partition, records=b"") for partition in fetched]
        partitions = [*self.missing, *fetched] if self.missing else fetched
        if session is not None:
            partitions = changed_partitions(session, partitions)
        size = 0
        for partition in partitions:
            size += len(partition.records)
        if size:
            # For the consumer's quota; they throttle its next request.
            broker.fetch_throttle_ms(context.client, size)
        leaders: set[int] = set()
        topics = self._topics(partitions, leaders) if partitions or self.unknown else []
        endpoints = broker.endpoints(leaders, context.client.listener) if leaders else ()
        context.reply(
            FetchResponse(
                context.throttle_ms,
                0,
                NO_SESSION if session is None else session.session_id,
                topics,
                [NodeEndpoint(node.node_id, node.host, node.port) for node in endpoints],
            )
        )

    def _topics(
        self, partitions: list[FetchedPartition], leaders: set[int]
    ) -> list[FetchableTopicResponse]:
        """Return the topics of the response; adds the leaders that it names to `leaders`."""
        version = self.context.header.version
        if (
            not isinstance(partitions, SharedResult)
            or self.unknown
            or self.context.changes_response
            or version < SESSION_SINCE
        ):
            return self._new_topics(partitions, leaders)
        topics: _SharedTopics | None = partitions.answers.get(version)
        if topics is None:
            topics = _SharedTopics(self._new_topics(partitions, leaders))
            partitions.answers[version] = topics
        return topics

    def _new_topics(
        self, partitions: Iterable[FetchedPartition], leaders: set[int]
    ) -> list[FetchableTopicResponse]:
        by_id = self.context.version >= TOPIC_ID_SINCE
        topics: dict[tuple[str, uuid.UUID | None], list[PartitionData]] = {}
        for topic_id, partition in self.unknown:
            topics.setdefault(("", topic_id), []).append(self._partition(partition, leaders))
        for partition in partitions:
            name = partition.key.topic
            key = (name, self.broker.metadata.topic_id(name) if by_id else None)
            topics.setdefault(key, []).append(self._partition(partition, leaders))
        return [
            FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=responses)
            for (name, topic_id), responses in topics.items()
        ]

    def _partition(self, fetched: FetchedPartition, leaders: set[int]) -> PartitionData:
        partition = PartitionData(
            partition_index=fetched.key.partition,
            error_code=int(fetched.error),
            high_watermark=fetched.high_watermark,
            last_stable_offset=fetched.last_stable_offset,
            log_start_offset=fetched.log_start_offset,
            aborted_transactions=None,
            records=fetched.records,
        )
        if fetched.aborted is not None:
            partition.aborted_transactions = [
                AbortedTransaction(
                    producer_id=aborted.producer_id, first_offset=aborted.first_offset
                )
                for aborted in fetched.aborted
            ]
        if fetched.diverging is not None:
            epoch, end = fetched.diverging
            partition.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
        if fetched.error in _WRONG_LEADER and self.context.version >= CURRENT_LEADER_SINCE:
            leader, epoch = self.broker.metadata.leader_of(fetched.key)
            partition.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
            leaders.add(leader)
        return partition
