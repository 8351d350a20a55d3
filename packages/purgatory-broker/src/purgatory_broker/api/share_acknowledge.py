"""ShareAcknowledge: accept, release, reject or renew records that a member has acquired."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.share_acknowledge import (
    SHARE_ACKNOWLEDGE_MESSAGES,
    AcknowledgeTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from purgatory_broker._wire.protocol.share_fetch import FetchTopic
from purgatory_broker.api.access import allowed_topics
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext
from purgatory_broker.sharing.records import AcknowledgementBatch, ShareError
from purgatory_broker.sharing.share_sessions import FINAL_EPOCH, MemberKey


class _Response(Protocol):
    error_code: int
    error_message: str | None


S = TypeVar("S", bound=_Response)
#: What ends with the connection.
_SESSIONS = "share sessions"


def member_of(group_id: str | None, member_id: str | None) -> MemberKey:
    if not group_id or not member_id:
        raise ShareError(ErrorCode.INVALID_REQUEST, "The group id and the member id are required.")
    return MemberKey(group_id, member_id)


def readable_topics(
    broker: BrokerApi, context: RequestContext, partitions: Iterable[TopicIdPartition]
) -> Container[str]:
    """Return the names of those topics that the client may read."""
    topic_ids = dict.fromkeys(each.topic_id for each in partitions)
    names = filter(None, map(broker.metadata.topic_name, topic_ids))
    return allowed_topics(broker, context, AclOperation.READ, names)


def bind_session(broker: BrokerApi, context: RequestContext) -> None:
    """Let the sessions of a request's connection end with it."""
    context.connection_ends.setdefault(
        _SESSIONS, partial(broker.share_members.end_connection, context.connection_ends)
    )


def acknowledged_batches(
    topics: Iterable[AcknowledgeTopic | FetchTopic],
) -> dict[TopicIdPartition, list[AcknowledgementBatch]]:
    """Return what a request of either kind acknowledges."""
    return {
        TopicIdPartition(topic.topic_id, partition.partition_index): [
            AcknowledgementBatch(each.first_offset, each.last_offset, tuple(each.acknowledge_types))
            for each in partition.acknowledgement_batches
        ]
        for topic in topics
        if topic.topic_id is not None
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def session_error(response: type[S], error: ShareError) -> S:
    answer = response()
    answer.error_code = int(error.code)
    answer.error_message = str(error) if str(error) != error.code.name else None
    return answer


def leader_of(
    broker: BrokerApi, key: TopicIdPartition, errors: Iterable[ErrorCode]
) -> tuple[int, int] | None:
    """Return the leader and its epoch where an error says that it is another node."""
    if ErrorCode.NOT_LEADER_OR_FOLLOWER not in errors:
        return None
    name = broker.metadata.topic_name(key.topic_id)
    return None if name is None else broker.metadata.leader_of(TopicPartition(name, key.partition))


def _share_acknowledge(
    broker: BrokerApi, context: RequestContext, request: ShareAcknowledgeRequest
) -> None:
    try:
        key = member_of(request.group_id, request.member_id)
        broker.share_members.sessions.acknowledge(key, request.share_session_epoch)
    except ShareError as error:
        context.reply(session_error(ShareAcknowledgeResponse, error))
        return
    acknowledged = acknowledged_batches(request.topics)

    def ended(errors: Mapping[TopicIdPartition, ErrorCode]) -> None:
        answer = partial(_reply, broker, context, key.group_id, errors)
        if request.share_session_epoch == FINAL_EPOCH:
            broker.share_members.end_session(key, answer)
        else:
            answer()

    allowed = readable_topics(broker, context, acknowledged)
    broker.share_members.acknowledge(
        key, acknowledged, allowed, ended, may_renew=request.is_renew_ack
    )


def _reply(
    broker: BrokerApi,
    context: RequestContext,
    group_id: str,
    errors: Mapping[TopicIdPartition, ErrorCode],
) -> None:
    topics: dict[object, ShareAcknowledgeTopicResponse] = {}
    leaders = set()
    for key, error in errors.items():
        partition = PartitionData(
            partition_index=key.partition,
            error_code=int(error),
            current_leader=LeaderIdAndEpoch(),
        )
        leader = leader_of(broker, key, [error])
        if leader is not None:
            partition.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
            leaders.add(leader[0])
        topic = topics.setdefault(
            key.topic_id, ShareAcknowledgeTopicResponse(topic_id=key.topic_id)
        )
        topic.partitions.append(partition)
    context.reply(
        ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=broker.share_settings.lock_duration_ms(group_id),
            responses=list(topics.values()),
            node_endpoints=[
                NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port)
                for node in broker.endpoints(leaders, context.client.listener)
            ],
        )
    )


SHARE_ACKNOWLEDGE = ServedApi(
    messages=SHARE_ACKNOWLEDGE_MESSAGES,
    versions=(1, 2),
    requires={AclResource.GROUP: AclOperation.READ},
    handle=_share_acknowledge,
)
