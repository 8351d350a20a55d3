"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the members of groups."""

from __future__ import annotations

import sys

from purgatory_broker._wire.protocol.heartbeat import (
    HEARTBEAT_MESSAGES,
    HeartbeatRequest,
    HeartbeatResponse,
)
from purgatory_broker._wire.protocol.join_group import (
    JOIN_GROUP_MESSAGES,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from purgatory_broker._wire.protocol.leave_group import (
    LEAVE_GROUP_MESSAGES,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from purgatory_broker._wire.protocol.sync_group import (
    SYNC_GROUP_MESSAGES,
    SyncGroupRequest,
    SyncGroupResponse,
)
from purgatory_broker._wire.reader import MAX_TEXT_BYTES
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.groups.group_messages import (
    Heartbeat,
    JoinRequest,
    JoinResult,
    LeavingMember,
    RemovalResult,
    SyncRequest,
    SyncResult,
)
from purgatory_broker.metadata.acls import AclOperation, AclResource
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


def _join_group(broker: BrokerApi, context: RequestContext, request: JoinGroupRequest) -> None:
    _check_sizes(context, request)
    version = context.version
    join = JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client=context.client,
        rebalance_timeout_ms=max(request.rebalance_timeout_ms, 0)
        if version >= REBALANCE_TIMEOUT_SINCE
        else request.session_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(
            {protocol.name: protocol.metadata for protocol in request.protocols}.items()
        ),
        reason=f"client reason: {request.reason or 'not provided'}",
        requires_known_member_id=version >= MEMBER_ID_REQUIRED_SINCE,
        supports_skip_assignment=version >= SKIP_ASSIGNMENT_SINCE,
    )
    broker.groups.classic.join(join, lambda result: context.reply(_join_response(result, version)))


def _check_sizes(context: RequestContext, request: JoinGroupRequest) -> None:
    if len(request.protocols) > MAX_PROTOCOLS:
        raise WireError(
            f"JoinGroup with {len(request.protocols):,} protocols exceeds the limit of "
            f"{MAX_PROTOCOLS:,}"
        )
    member_name = (request.group_instance_id or context.client.client_id).encode()
    max_bytes = MAX_TEXT_BYTES - _MEMBER_ID_SUFFIX_BYTES
    if len(member_name) > max_bytes:
        raise WireError(
            f"JoinGroup with a client or instance id of {len(member_name):,} bytes exceeds the "
            f"limit of {max_bytes:,}"
        )


def _join_response(result: JoinResult, version: int) -> JoinGroupResponse:
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


JOIN_GROUP = ServedApi(
    messages=JOIN_GROUP_MESSAGES,
    versions=(0, 9),
    requires={AclResource.GROUP: AclOperation.READ},
    # Version 0 has a session timeout alone.
    recorded_timeout_ms=lambda request: (
        request.session_timeout_ms
        if request.rebalance_timeout_ms == -1
        else max(request.rebalance_timeout_ms, 0)
    ),
    handle=_join_group,
)


#: The first version that must name the protocol and its type.
PROTOCOL_SINCE = 5


def _sync_group(broker: BrokerApi, context: RequestContext, request: SyncGroupRequest) -> None:
    sync = SyncRequest(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        requires_protocol=context.version >= PROTOCOL_SINCE,
        assignments={given.member_id: given.assignment for given in request.assignments},
    )

    def reply(result: SyncResult) -> None:
        context.reply(
            SyncGroupResponse(
                error_code=result.error,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol_name,
                assignment=result.assignment,
            )
        )

    broker.groups.classic.sync(sync, reply)


SYNC_GROUP = ServedApi(
    messages=SYNC_GROUP_MESSAGES,
    versions=(0, 5),
    requires={AclResource.GROUP: AclOperation.READ},
    # A sync waits for its group's rebalance, whose timeout is not in the request.
    recorded_timeout_ms=lambda _request: sys.maxsize,
    handle=_sync_group,
)


def _heartbeat(
    broker: BrokerApi, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse:
    heartbeat = Heartbeat(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
    )
    return HeartbeatResponse(error_code=broker.groups.classic.heartbeat(heartbeat))


HEARTBEAT = ServedApi(
    messages=HEARTBEAT_MESSAGES,
    versions=(0, 4),
    requires={AclResource.GROUP: AclOperation.READ},
    answer=_heartbeat,
)


#: The first version with a list of members.
MEMBER_LIST_SINCE = 3


def _leave_group(broker: BrokerApi, context: RequestContext, request: LeaveGroupRequest) -> None:
    """Old versions are about their sender; later ones may name members by instance id alone."""
    if context.version < MEMBER_LIST_SINCE:
        members: tuple[LeavingMember, ...] = (LeavingMember(request.member_id),)
    else:
        members = tuple(
            LeavingMember(member.member_id, member.group_instance_id) for member in request.members
        )

    def reply(left: RemovalResult) -> None:
        if context.version < MEMBER_LIST_SINCE:
            code = left.parts[0] if left.parts else left.error
            context.reply(LeaveGroupResponse(error_code=code))
            return
        # Without results of the members, the whole request has an error.
        responses = [
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                error_code=error,
            )
            for member, error in zip(members, left.parts, strict=False)
        ]
        context.reply(LeaveGroupResponse(error_code=left.error, members=responses))

    broker.groups.classic.leave(request.group_id, members, reply)


LEAVE_GROUP = ServedApi(
    messages=LEAVE_GROUP_MESSAGES,
    versions=(0, 5),
    requires={AclResource.GROUP: AclOperation.READ},
    handle=_leave_group,
)
