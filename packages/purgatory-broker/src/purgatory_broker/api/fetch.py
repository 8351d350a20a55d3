"""Fetch: read records, now or when there are enough."""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from purgatory_broker._wire.api_messages import NamedTopic
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.fetch import (
    FETCH_MESSAGES,
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from purgatory_broker.api.access import DENIED, allowed_topics, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_fetch import FetchedPartition, FetchParams, FetchTarget
from purgatory_broker.replication.fetch_sessions import (
    NO_SESSION,
    FetchSession,
    FetchSessionError,
    changed_partitions,
)
from purgatory_broker.request_context import RequestContext

#: The first versions with fetch sessions (KIP-227), with fetches from followers (KIP-392), with
#: topic ids instead of names (KIP-516), with the follower's id in `replica_state` (KIP-903), and
#: with the current leader in the response (KIP-951).
SESSION_SINCE = 7
FETCH_FROM_FOLLOWER_SINCE = 11
TOPIC_ID_SINCE = 13
REPLICA_STATE_SINCE = 15
CURRENT_LEADER_SINCE = 16

#: The isolation level of consumers that read what is committed.
READ_COMMITTED = 1

_WRONG_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


#: The errors for partitions of topic ids that do not exist.
_UnknownTopics: TypeAlias = list[tuple[uuid.UUID | None, FetchedPartition]]


def _fetch(broker: BrokerApi, context: RequestContext, request: FetchRequest) -> None:
    """Handle a Fetch request: read partitions, at once or when enough records are available.

    1. Look up the requested partitions; with topic ids, some may be of unknown topics.
    2. Open the fetch session, which may replace the requested partitions by those it has cached.
    3. Refuse partitions that the client may not read, or that do not exist.
    4. Answer a consumer over its quota without reading; it repeats the request.
    5. Pass the other partitions to the replica manager, which waits for `min_bytes`. If a partition
       was refused, the response is sent at once.
    """
    by_id = context.version >= TOPIC_ID_SINCE
    targets, unknown = _requested_targets(broker, request, by_id=by_id)
    try:
        session = _open_session(broker, context, request, targets)
    except FetchSessionError as error:
        context.reply(
            FetchResponse(error_code=int(error.code), session_id=NO_SESSION, responses=[])
        )
        return
    if session is not None:
        targets = [cached.target for cached in session.partitions.values()]
    replica_id = _replica_id(context, request)
    allowed = _allowed_topics(broker, context, targets, replica_id)
    existing: list[FetchTarget] = []
    missing: list[FetchedPartition] = []
    for target in targets:
        if target.key.topic not in allowed:
            missing.append(FetchedPartition(target.key, DENIED[AclResource.TOPIC]))
        elif broker.metadata.partition_exists(target.key):
            existing.append(target)
        else:
            missing.append(FetchedPartition(target.key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if replica_id < 0 and _is_throttled(broker, context, session):
        return
    is_refused = bool(unknown or missing)
    params = _fetch_params(broker, context, request, replica_id, at_once=is_refused)
    response = _FetchReply(broker, context, session, unknown, missing)
    context.operation = broker.fetches.fetch(params, existing, response.send)


def _requested_targets(
    broker: BrokerApi, request: FetchRequest, *, by_id: bool
) -> tuple[list[FetchTarget], _UnknownTopics]:
    targets: dict[TopicPartition, FetchTarget] = {}
    unknown: _UnknownTopics = []
    for topic in request.topics:
        name = _topic_name(broker, topic, by_id=by_id)
        for partition in topic.partitions:
            if name is None:
                key = TopicPartition("", partition.partition)
                error = FetchedPartition(key, ErrorCode.UNKNOWN_TOPIC_ID)
                unknown.append((topic.topic_id, error))
                continue
            key = TopicPartition(name, partition.partition)
            targets[key] = FetchTarget(
                key,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
                partition.last_fetched_epoch,
                partition.log_start_offset,
            )
    return list(targets.values()), unknown


def _topic_name(
    broker: BrokerApi, topic: FetchTopic | ForgottenTopic, *, by_id: bool
) -> str | None:
    return broker.metadata.topic_name(topic.topic_id) if by_id else topic.topic


def _open_session(
    broker: BrokerApi, context: RequestContext, request: FetchRequest, targets: list[FetchTarget]
) -> FetchSession | None:
    if context.version < SESSION_SINCE:
        return None
    by_id = context.version >= TOPIC_ID_SINCE
    forgotten = [
        TopicPartition(_topic_name(broker, topic, by_id=by_id) or "", index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    return broker.fetch_sessions.open(
        request.session_id,
        request.session_epoch,
        targets,
        forgotten,
        uses_topic_ids=by_id,
        now_ms=broker.now_ms(),
    )


def _allowed_topics(
    broker: BrokerApi, context: RequestContext, targets: Sequence[FetchTarget], replica_id: int
) -> Container[str]:
    if replica_id >= 0 and not is_allowed(
        broker, context, AclOperation.CLUSTER_ACTION, AclResource.CLUSTER
    ):
        return ()
    names = (target.key.topic for target in targets)
    if replica_id >= 0:
        return set(names)
    return allowed_topics(broker, context, AclOperation.READ, names)


def _replica_id(context: RequestContext, request: FetchRequest) -> int:
    """Return the id of the follower that sent a request; below 0 for a consumer."""
    if context.version >= REPLICA_STATE_SINCE and request.replica_state:
        return request.replica_state.replica_id
    return request.replica_id


def _is_throttled(broker: BrokerApi, context: RequestContext, session: FetchSession | None) -> bool:
    """Return whether a consumer is over its quota, and its request has been answered."""
    throttle_ms = broker.fetch_throttle_ms(context.client, 0)
    if not throttle_ms:
        return False
    context.throttle_ms = throttle_ms
    context.reply(
        FetchResponse(
            throttle_time_ms=throttle_ms,
            session_id=session.session_id if session else NO_SESSION,
            responses=[],
        )
    )
    return True


def _fetch_params(
    broker: BrokerApi,
    context: RequestContext,
    request: FetchRequest,
    replica_id: int,
    *,
    at_once: bool,
) -> FetchParams:
    max_wait_ms = 0 if at_once else request.max_wait_ms
    max_bytes = min(request.max_bytes, broker.settings.fetch_max_bytes)
    min_bytes = min(request.min_bytes, max_bytes)
    leader_only = replica_id >= 0 or context.version < FETCH_FROM_FOLLOWER_SINCE
    return FetchParams(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        leader_only,
        request.isolation_level == READ_COMMITTED,
    )


@dataclass(slots=True)
class _FetchReply:
    broker: BrokerApi
    context: RequestContext
    session: FetchSession | None
    unknown: _UnknownTopics
    missing: Sequence[FetchedPartition]

    def send(self, fetched: list[FetchedPartition]) -> None:
        """Send what has changed in the session; no records while `UnreadResponses` is full."""
        if not self.broker.has_room_for_records():
            # Copies: other fetches may have the same results.
            fetched = [replace(partition, records=b"") for partition in fetched]
        partitions = [*self.missing, *fetched]
        if self.session is not None:
            partitions = changed_partitions(self.session, partitions)
        size = sum(len(partition.records) for partition in partitions)
        if size:
            # For the consumer's quota; they throttle its next request.
            self.broker.fetch_throttle_ms(self.context.client, size)
        leaders: set[int] = set()
        topics = self._topics(partitions, leaders)
        endpoints = self.broker.endpoints(leaders, self.context.client.listener) if leaders else ()
        self.context.reply(
            FetchResponse(
                throttle_time_ms=self.context.throttle_ms,
                error_code=0,
                session_id=NO_SESSION if self.session is None else self.session.session_id,
                responses=topics,
                node_endpoints=[
                    NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port)
                    for node in endpoints
                ],
            )
        )

    def _topics(
        self, partitions: Iterable[FetchedPartition], leaders: set[int]
    ) -> list[FetchableTopicResponse]:
        """Return the topics of the response; adds the leaders that it names to `leaders`."""
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


def _topics_of_session(broker: BrokerApi, request: FetchRequest) -> Iterator[NamedTopic]:
    if request.session_epoch > 0:
        for key in broker.fetch_sessions.partitions_of(request.session_id):
            yield NamedTopic(key.topic, None, [key.partition])


FETCH = ServedApi(
    messages=FETCH_MESSAGES,
    versions=(4, 18),
    holds_records=True,
    handle=_fetch,
    more_topics=_topics_of_session,
)
