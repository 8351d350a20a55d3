"""ShareGroupHeartbeat and ShareGroupDescribe: the members of share groups (KIP-932)."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol import share_group_describe as describing
from purgatory_broker._wire.protocol.share_group_describe import (
    SHARE_GROUP_DESCRIBE_MESSAGES,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from purgatory_broker._wire.protocol.share_group_heartbeat import (
    SHARE_GROUP_HEARTBEAT_MESSAGES,
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from purgatory_broker.api.access import DENIED, allowed_topics
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.described_groups import describe_groups
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.groups.modern.partitions import by_topic
from purgatory_broker.groups.share.assignor import NAME
from purgatory_broker.groups.share.messages import (
    ShareHeartbeat,
    ShareHeartbeatResult,
    ShareMemberDescription,
)
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.request_context import RequestContext


def _heartbeat(
    broker: BrokerApi, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> None:
    names = request.subscribed_topic_names
    if names:
        allowed = allowed_topics(broker, context, AclOperation.DESCRIBE, names)
        if any(name not in allowed for name in names):
            context.reply(ShareGroupHeartbeatResponse(error_code=DENIED[AclResource.TOPIC]))
            return

    def reply(result: ShareHeartbeatResult) -> None:
        assigned = result.assignment
        context.reply(
            ShareGroupHeartbeatResponse(
                error_code=result.error,
                error_message=result.message,
                member_id=result.member_id,
                member_epoch=result.member_epoch,
                heartbeat_interval_ms=result.heartbeat_interval_ms,
                assignment=None
                if assigned is None
                else Assignment(
                    [
                        TopicPartitions(topic_id, numbers)
                        for topic_id, numbers in by_topic(assigned).items()
                    ]
                ),
            )
        )

    heartbeat = ShareHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client=context.client,
        rack_id=request.rack_id,
        topics=None if names is None else frozenset(names),
    )
    broker.groups.share.heartbeat(heartbeat, reply)


SHARE_GROUP_HEARTBEAT = ServedApi(
    messages=SHARE_GROUP_HEARTBEAT_MESSAGES,
    versions=(1, 1),
    requires={AclResource.GROUP: AclOperation.READ},
    handle=_heartbeat,
)


def _describe(
    broker: BrokerApi, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    def described(group_id: str) -> DescribedGroup:
        group = broker.groups.share.describe(group_id)
        return DescribedGroup(
            error_code=group.error,
            error_message=group.message,
            group_id=group.group_id,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=NAME if group.error is ErrorCode.NONE else "",
            members=[_member(broker, member) for member in group.members],
        )

    return ShareGroupDescribeResponse(
        groups=describe_groups(broker, context, request, DescribedGroup, described, "assignment")
    )


def _member(broker: BrokerApi, described: ShareMemberDescription) -> Member:
    member = described.member
    return Member(
        member_id=described.member_id,
        rack_id=member.rack_id,
        member_epoch=described.current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=describing.Assignment(
            [
                describing.TopicPartitions(topic_id, name, numbers)
                for topic_id, numbers in by_topic(described.current.assigned).items()
                if (name := broker.metadata.topic_name(topic_id)) is not None
            ]
        ),
    )


SHARE_GROUP_DESCRIBE = ServedApi(
    messages=SHARE_GROUP_DESCRIBE_MESSAGES, versions=(1, 1), answer=_describe
)
