"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from functools import partial

from purgatory_broker._wire.protocol import consumer_group_describe as describing
from purgatory_broker._wire.protocol.consumer_group_describe import (
    CONSUMER_GROUP_DESCRIBE_MESSAGES,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from purgatory_broker._wire.protocol.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT_MESSAGES,
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from purgatory_broker.api.access import (
    DENIED,
    allowed_topics,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.described_groups import describe_groups
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.groups.consumer.heartbeat_messages import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    ConsumerMemberDescription,
)
from purgatory_broker.groups.modern.partitions import Assignment as Partitions
from purgatory_broker.groups.modern.partitions import by_topic, of_topics
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.request_context import RequestContext

#: The first version whose members choose their ids.
MEMBER_ID_SINCE = 1


def _heartbeat(
    broker: BrokerApi, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> None:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    if names:
        allowed = allowed_topics(broker, context, AclOperation.DESCRIBE, names)
        if any(name not in allowed for name in names):
            context.reply(ConsumerGroupHeartbeatResponse(error_code=DENIED[AclResource.TOPIC]))
            return

    def reply(result: ConsumerHeartbeatResult) -> None:
        context.reply(
            ConsumerGroupHeartbeatResponse(
                error_code=result.error,
                error_message=result.message,
                member_id=result.member_id,
                member_epoch=result.member_epoch,
                heartbeat_interval_ms=result.heartbeat_interval_ms,
                assignment=None if result.assignment is None else _assignment(result.assignment),
            )
        )

    heartbeat = ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        client=context.client,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if names is None else frozenset(names),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else of_topics((topic.topic_id, topic.partitions) for topic in owned),
        requires_member_id=context.version >= MEMBER_ID_SINCE,
        describable=None
        if broker.authorizer is None
        else partial(allowed_topics, broker, context, AclOperation.DESCRIBE),
    )
    broker.groups.consumer.heartbeat(heartbeat, reply)


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        [TopicPartitions(topic_id, numbers) for topic_id, numbers in by_topic(partitions).items()]
    )


CONSUMER_GROUP_HEARTBEAT = ServedApi(
    messages=CONSUMER_GROUP_HEARTBEAT_MESSAGES,
    versions=(0, 1),
    requires={AclResource.GROUP: AclOperation.READ},
    handle=_heartbeat,
)


#: The first version that tells the type of each member.
MEMBER_TYPE_SINCE = 1
_CLASSIC_MEMBER, _CONSUMER_MEMBER, _UNKNOWN_TYPE = 0, 1, -1


def _describe(
    broker: BrokerApi, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    def described(group_id: str) -> DescribedGroup:
        group = broker.groups.consumer.describe(group_id)
        return DescribedGroup(
            error_code=group.error,
            error_message=group.message,
            group_id=group.group_id,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=group.assignor,
            members=[_member(broker, member, context.version) for member in group.members],
        )

    return ConsumerGroupDescribeResponse(
        groups=describe_groups(
            broker, context, request, DescribedGroup, described, "assignment", "target_assignment"
        )
    )


def _member(broker: BrokerApi, described: ConsumerMemberDescription, version: int) -> Member:
    member = described.member
    member_type = _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER
    return Member(
        member_id=described.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=described.current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex or "",
        assignment=_named(broker, described.current.assigned),
        target_assignment=_named(broker, described.target),
        member_type=member_type if version >= MEMBER_TYPE_SINCE else _UNKNOWN_TYPE,
    )


def _named(broker: BrokerApi, partitions: Partitions) -> describing.Assignment:
    named = (
        (broker.metadata.topic_name(topic_id), topic_id, numbers)
        for topic_id, numbers in by_topic(partitions).items()
    )
    return describing.Assignment(
        [
            describing.TopicPartitions(topic_id, name, numbers)
            for name, topic_id, numbers in named
            if name is not None
        ]
    )


CONSUMER_GROUP_DESCRIBE = ServedApi(
    messages=CONSUMER_GROUP_DESCRIBE_MESSAGES, versions=(0, 1), answer=_describe
)
