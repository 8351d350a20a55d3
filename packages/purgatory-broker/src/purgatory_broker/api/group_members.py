"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the members of groups."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT_MESSAGES,
    ConsumerGroupHeartbeatResponse,
)
from purgatory_broker._wire.protocol.heartbeat import HEARTBEAT_MESSAGES, HeartbeatResponse
from purgatory_broker._wire.protocol.join_group import (
    JOIN_GROUP_MESSAGES,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from purgatory_broker._wire.protocol.leave_group import (
    LEAVE_GROUP_MESSAGES,
    LeaveGroupResponse,
    MemberResponse,
)
from purgatory_broker._wire.protocol.sync_group import SYNC_GROUP_MESSAGES, SyncGroupResponse
from purgatory_broker._wire.reader import MAX_TEXT_BYTES
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, Subjects
from purgatory_broker.groups.group_messages import (
    Heartbeat,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from purgatory_broker.request_context import RequestContext

#: The most protocols that a member may offer; consumers offer two or three. The coordinator keeps
#: each as long as the member.
MAX_PROTOCOLS = 1_000
#: A member id is the client id or the instance id, a dash and a UUID.
_MEMBER_ID_SUFFIX_BYTES = 37


#: The first versions with a rebalance timeout, whose clients handle MEMBER_ID_REQUIRED (KIP-394),
#: whose response may have no protocol name, and whose response can tell the leader to skip the
#: assignment (KIP-814).
REBALANCE_TIMEOUT_SINCE = 1
MEMBER_ID_REQUIRED_SINCE = 4
NULLABLE_PROTOCOL_NAME_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9


def _decode_join_group(message: Any, context: RequestContext) -> JoinRequest:
    if len(message.protocols) > MAX_PROTOCOLS:
        raise WireError(
            f"JoinGroup with {len(message.protocols):,} protocols exceeds the limit of "
            f"{MAX_PROTOCOLS:,}"
        )
    member_name = (message.group_instance_id or context.client.client_id).encode()
    max_bytes = MAX_TEXT_BYTES - _MEMBER_ID_SUFFIX_BYTES
    if len(member_name) > max_bytes:
        raise WireError(
            f"JoinGroup with a client or instance id of {len(member_name):,} bytes exceeds the "
            f"limit of {max_bytes:,}"
        )
    version = context.version
    return JoinRequest(
        group_id=message.group_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        client=context.client,
        rebalance_timeout_ms=max(message.rebalance_timeout_ms, 0)
        if version >= REBALANCE_TIMEOUT_SINCE
        else message.session_timeout_ms,
        session_timeout_ms=message.session_timeout_ms,
        protocol_type=message.protocol_type,
        protocols=tuple(
            {protocol.name: bytes(protocol.metadata) for protocol in message.protocols}.items()
        ),
        reason=f"client reason: {message.reason or 'not provided'}",
        requires_known_member_id=version >= MEMBER_ID_REQUIRED_SINCE,
        supports_skip_assignment=version >= SKIP_ASSIGNMENT_SINCE,
    )


def _join_group(broker: BrokerApi, context: RequestContext, request: JoinRequest) -> None:
    broker.groups.join_group(
        request, lambda result: context.reply(_join_response(result, context.version))
    )


def _join_response(result: JoinResult, version: int) -> Any:
    no_name = None if version >= NULLABLE_PROTOCOL_NAME_SINCE else ""
    return JoinGroupResponse(
        error_code=int(result.error),
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=no_name if result.protocol_name is None else result.protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in result.members
        ],
    )


def _refuse_join_group(request: JoinRequest, code: ErrorCode) -> Any:
    return JoinGroupResponse(error_code=int(code), member_id=request.member_id, members=[])


JOIN_GROUP = ServedApi(
    messages=JOIN_GROUP_MESSAGES,
    versions=(0, 9),
    recorded_timeout_ms=lambda request: request.rebalance_timeout_ms,
    decode=_decode_join_group,
    handle=_join_group,
    refuse=_refuse_join_group,
    subjects=Subjects(groups=lambda _broker, request: [request.group_id]),
)


#: The first version that must name the protocol and its type.
PROTOCOL_SINCE = 5


def _decode_sync_group(message: Any, context: RequestContext) -> SyncRequest:
    return SyncRequest(
        group_id=message.group_id,
        generation_id=message.generation_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        requires_protocol=context.version >= PROTOCOL_SINCE,
        assignments={
            assignment.member_id: bytes(assignment.assignment) for assignment in message.assignments
        },
    )


def _sync_group(broker: BrokerApi, context: RequestContext, request: SyncRequest) -> None:
    def reply(result: SyncResult) -> None:
        context.reply(
            SyncGroupResponse(
                error_code=int(result.error),
                protocol_type=result.protocol_type,
                protocol_name=result.protocol_name,
                assignment=result.assignment,
            )
        )

    broker.groups.sync_group(request, reply)


SYNC_GROUP = ServedApi(
    messages=SYNC_GROUP_MESSAGES,
    versions=(0, 5),
    # A sync waits for its group's rebalance, whose timeout is not in the request.
    recorded_timeout_ms=lambda _request: sys.maxsize,
    decode=_decode_sync_group,
    handle=_sync_group,
    subjects=Subjects(groups=lambda _broker, request: [request.group_id]),
)


def _decode_heartbeat(message: Any, context: RequestContext) -> Heartbeat:
    return Heartbeat(
        group_id=message.group_id,
        generation_id=message.generation_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
    )


def _heartbeat(broker: BrokerApi, context: RequestContext, request: Heartbeat) -> Any:
    return HeartbeatResponse(error_code=int(broker.groups.heartbeat(request)))


HEARTBEAT = ServedApi(
    messages=HEARTBEAT_MESSAGES,
    versions=(0, 4),
    decode=_decode_heartbeat,
    answer=_heartbeat,
    subjects=Subjects(groups=lambda _broker, request: [request.group_id]),
)


#: The first version with a list of members.
MEMBER_LIST_SINCE = 3


@dataclass(frozen=True, slots=True)
class _LeaveGroup:
    group_id: str
    members: tuple[LeavingMember, ...]
    #: The response has the results of the members; otherwise there is one member.
    has_member_list: bool


def _decode_leave_group(message: Any, context: RequestContext) -> _LeaveGroup:
    """Old versions are about their sender; later ones may name members by instance id alone."""
    has_member_list = context.version >= MEMBER_LIST_SINCE
    members = (
        tuple(
            LeavingMember(member.member_id, member.group_instance_id) for member in message.members
        )
        if has_member_list
        else (LeavingMember(message.member_id),)
    )
    return _LeaveGroup(message.group_id, members, has_member_list)


def _leave_group(broker: BrokerApi, context: RequestContext, request: _LeaveGroup) -> Any:
    left = broker.groups.leave_group(request.group_id, request.members)
    if not request.has_member_list:
        code = left.parts[0] if left.parts else left.error
        return LeaveGroupResponse(error_code=int(code), members=[])
    # Without results of the members, the whole request has an error.
    return LeaveGroupResponse(
        error_code=int(left.error),
        members=[
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                error_code=int(error),
            )
            for member, error in zip(request.members, left.parts, strict=False)
        ],
    )


LEAVE_GROUP = ServedApi(
    messages=LEAVE_GROUP_MESSAGES,
    versions=(0, 5),
    decode=_decode_leave_group,
    answer=_leave_group,
    subjects=Subjects(groups=lambda _broker, request: [request.group_id]),
)


@dataclass(frozen=True, slots=True)
class _ConsumerGroupHeartbeat:
    group_id: str
    #: The ids of topics and the numbers of partitions that the member has.
    assigned: tuple[tuple[UUID | None, tuple[int, ...]], ...]


def _decode_consumer_group_heartbeat(
    message: Any, context: RequestContext
) -> _ConsumerGroupHeartbeat:
    return _ConsumerGroupHeartbeat(
        message.group_id,
        tuple(
            (topic.topic_id, tuple(topic.partitions)) for topic in message.topic_partitions or ()
        ),
    )


def _consumer_group_heartbeat(
    broker: BrokerApi, context: RequestContext, request: _ConsumerGroupHeartbeat
) -> Any:
    # A client that does not find the API at all may wait for it for ever.
    return ConsumerGroupHeartbeatResponse(
        error_code=int(ErrorCode.UNSUPPORTED_VERSION),
        error_message="Only the classic group protocol is supported: group.protocol=classic.",
    )


CONSUMER_GROUP_HEARTBEAT = ServedApi(
    messages=CONSUMER_GROUP_HEARTBEAT_MESSAGES,
    versions=(0, 1),
    decode=_decode_consumer_group_heartbeat,
    answer=_consumer_group_heartbeat,
    subjects=Subjects(
        partitions=lambda broker, request: (
            (broker.metadata.topic_name(topic_id), indexes)
            for topic_id, indexes in request.assigned
        ),
        groups=lambda _broker, request: [request.group_id],
    ),
)
