"""ShareFetch: acquire records for a member of a share group, now or when there are some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import NamedTopic
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.share_fetch import (
    SHARE_FETCH_MESSAGES,
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.api.share_acknowledge import (
    acknowledged_batches,
    bind_session,
    leader_of,
    member_of,
    readable_topics,
    session_error,
)
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.request_context import RequestContext
from purgatory_broker.sharing.delayed_share_fetch import ShareFetchParams
from purgatory_broker.sharing.records import ShareError
from purgatory_broker.sharing.share_fetches import SharedRecords
from purgatory_broker.sharing.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MemberKey,
    ShareSession,
)

#: The modes of KIP-1206: whole batches, or an exact number of records.
_BATCH_OPTIMIZED, _RECORD_LIMIT = range(2)


def _share_fetch(broker: BrokerApi, context: RequestContext, request: ShareFetchRequest) -> None:
    """Handle a ShareFetch request.

    1. Find the member's session, which may have partitions that the request does not name.
    2. Acknowledge what the request acknowledges.
    3. Meanwhile, acquire records of the session's partitions. They may have to be waited for.
    4. Answer when both have ended. A request that ends the session acquires nothing, and releases;
       one that renews acquires nothing.
    """
    acknowledged = acknowledged_batches(request.topics)
    try:
        key = member_of(request.group_id, request.member_id)
        if request.is_renew_ack and _asks_for_records(request):
            raise ShareError(ErrorCode.INVALID_REQUEST, "A renewal must not ask for records.")
        session = _session(broker, context, request, key, has_acknowledged=bool(acknowledged))
    except ShareError as error:
        context.reply(session_error(ShareFetchResponse, error))
        return
    is_final = request.share_session_epoch == FINAL_EPOCH
    response = _ShareFetchReply(broker, context, session)

    def acknowledgements_ended(errors: Mapping[TopicIdPartition, ErrorCode]) -> None:
        response.acknowledged = errors
        if is_final:
            response.fetched = {}
            broker.share_members.end_session(key, response.send_if_complete)
        else:
            response.send_if_complete()

    allowed = readable_topics(broker, context, (*session.partitions, *acknowledged))
    broker.share_members.acknowledge(
        key, acknowledged, allowed, acknowledgements_ended, may_renew=request.is_renew_ack
    )
    if is_final:
        return
    context.throttle_ms = broker.fetch_throttle_ms(context.client, 0)
    if request.is_renew_ack or context.throttle_ms or not broker.has_room_for_records():
        # A member that renews gets nothing; one over its quota, or whose node is full of unread
        # responses, asks again.
        response.take({})
        return
    operation = broker.share_members.fetch(
        _params(broker, request, key), _in_turn(session), allowed, response.take
    )
    if not context.answered:
        context.operation = operation


def _asks_for_records(request: ShareFetchRequest) -> bool:
    return any((request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records))


def _session(
    broker: BrokerApi,
    context: RequestContext,
    request: ShareFetchRequest,
    key: MemberKey,
    *,
    has_acknowledged: bool,
) -> ShareSession:
    if has_acknowledged and request.share_session_epoch == INITIAL_EPOCH:
        raise ShareError(ErrorCode.INVALID_REQUEST)
    session = broker.share_members.sessions.fetch(
        key,
        request.share_session_epoch,
        [
            TopicIdPartition(topic.topic_id, partition.partition_index)
            for topic in request.topics
            if topic.topic_id is not None
            for partition in topic.partitions
        ],
        [
            TopicIdPartition(topic.topic_id, index)
            for topic in request.forgotten_topics_data
            if topic.topic_id is not None
            for index in topic.partitions
        ],
        context.connection_ends,
    )
    bind_session(broker, context)
    if request.share_acquire_mode not in (_BATCH_OPTIMIZED, _RECORD_LIMIT):
        # As Kafka, which steps the session's epoch first.
        raise ShareError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return session


def _in_turn(session: ShareSession) -> list[TopicIdPartition]:
    """Return a session's partitions, at each fetch beginning with the next one, as Kafka does."""
    partitions = list(session.partitions)
    if not partitions:
        return []
    first = (session.epoch - 1) % len(partitions)
    return [*partitions[first:], *partitions[:first]]


def _params(broker: BrokerApi, request: ShareFetchRequest, key: MemberKey) -> ShareFetchParams:
    max_bytes = min(request.max_bytes, broker.settings.fetch_max_bytes)
    return ShareFetchParams(
        key.group_id,
        key.member_id,
        request.max_wait_ms,
        min(request.min_bytes, max_bytes),
        max_bytes,
        request.max_records,
        request.batch_size,
        request.share_acquire_mode == _RECORD_LIMIT,
        broker.share_settings.is_read_committed(key.group_id),
    )


@dataclass(slots=True)
class _ShareFetchReply:
    broker: BrokerApi
    context: RequestContext
    session: ShareSession
    #: None until they are known.
    acknowledged: Mapping[TopicIdPartition, ErrorCode] | None = None
    fetched: Mapping[TopicIdPartition, SharedRecords] | None = None
    leaders: set[int] = field(default_factory=set)

    def take(self, fetched: Mapping[TopicIdPartition, SharedRecords]) -> None:
        self.fetched = fetched
        self.send_if_complete()

    def send_if_complete(self) -> None:
        if self.acknowledged is None or self.fetched is None:
            return
        size = sum(len(result.records) for result in self.fetched.values())
        if size:
            # For the member's quota; they throttle its next request.
            self.broker.fetch_throttle_ms(self.context.client, size)
        topics = self._topics(self.acknowledged, self.fetched)
        endpoints = self.broker.endpoints(self.leaders, self.context.client.listener)
        group_id = self.session.key.group_id
        self.context.reply(
            ShareFetchResponse(
                throttle_time_ms=self.context.throttle_ms,
                acquisition_lock_timeout_ms=self.broker.share_settings.lock_duration_ms(group_id),
                responses=topics,
                node_endpoints=[
                    NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port)
                    for node in endpoints
                ],
            )
        )

    def _topics(
        self,
        acknowledged: Mapping[TopicIdPartition, ErrorCode],
        fetched: Mapping[TopicIdPartition, SharedRecords],
    ) -> list[ShareFetchableTopicResponse]:
        topics: dict[object, ShareFetchableTopicResponse] = {}
        for key in dict.fromkeys((*fetched, *acknowledged)):
            result = fetched.get(key)
            has_news = result is not None and (
                self.session.take_news(key)
                or bool(result.records)
                or result.error is not ErrorCode.NONE
            )
            if has_news or key in acknowledged:
                topic = topics.setdefault(
                    key.topic_id, ShareFetchableTopicResponse(topic_id=key.topic_id)
                )
                topic.partitions.append(
                    self._partition(
                        key, result or SharedRecords(), acknowledged.get(key, ErrorCode.NONE)
                    )
                )
        return list(topics.values())

    def _partition(
        self, key: TopicIdPartition, result: SharedRecords, acknowledged: ErrorCode
    ) -> PartitionData:
        partition = PartitionData(
            partition_index=key.partition,
            error_code=int(result.error),
            acknowledge_error_code=int(acknowledged),
            current_leader=LeaderIdAndEpoch(),
            records=result.records,
            acquired_records=[
                AcquiredRecords(
                    first_offset=each.first,
                    last_offset=each.last,
                    delivery_count=each.delivery_count,
                )
                for each in result.acquired
            ],
        )
        leader = leader_of(self.broker, key, (result.error, acknowledged))
        if leader is not None:
            partition.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
            self.leaders.add(leader[0])
        return partition


def _topics_of_session(broker: BrokerApi, request: ShareFetchRequest) -> Iterator[NamedTopic]:
    key = MemberKey(request.group_id or "", request.member_id or "")
    session = broker.share_members.sessions.find(key)
    if session is not None and request.share_session_epoch > 0:
        for each in session.partitions:
            yield NamedTopic(None, each.topic_id, [each.partition])


SHARE_FETCH = ServedApi(
    messages=SHARE_FETCH_MESSAGES,
    versions=(1, 2),
    holds_records=True,
    requires={AclResource.GROUP: AclOperation.READ},
    handle=_share_fetch,
    more_topics=_topics_of_session,
)
