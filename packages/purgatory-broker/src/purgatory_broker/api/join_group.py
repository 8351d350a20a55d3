"""JoinGroup: become a member of a group's next generation."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import JoinGroupRequest, JoinGroupResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.groups.group_requests import JoinRequest
from purgatory_broker.groups.group_results import JoinResult
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.limits import MAX_TEXT_BYTES
from purgatory_broker.wire.wire_error import WireError

#: The most protocols that a member may offer; consumers offer two or three. The coordinator keeps
#: each as long as the member.
MAX_PROTOCOLS = 1_000
#: A member id is the client id or the instance id, a dash and a UUID.
_MEMBER_ID_SUFFIX_BYTES = 37

_Member = JoinGroupResponse.JoinGroupResponseMember

#: The first versions with a rebalance timeout, whose clients handle MEMBER_ID_REQUIRED (KIP-394),
#: whose response may have no protocol name, and whose response can tell the leader to skip the
#: assignment (KIP-814).
REBALANCE_TIMEOUT_SINCE = 1
MEMBER_ID_REQUIRED_SINCE = 4
NULLABLE_PROTOCOL_NAME_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9


def _decode(message: Any, context: RequestContext) -> JoinRequest:
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
        request, lambda result: context.reply(_encode(result, context.version))
    )


def _encode(result: JoinResult, version: int) -> Any:
    no_name = None if version >= NULLABLE_PROTOCOL_NAME_SINCE else ""
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=int(result.error),
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=no_name if result.protocol_name is None else result.protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            _Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in result.members
        ],
    )


def _error_response(request: JoinRequest, code: ErrorCode) -> Any:
    return JoinGroupResponse(
        error_code=int(code),
        generation_id=-1,
        protocol_type=None,
        protocol_name="",
        leader="",
        member_id=request.member_id,
        members=[],
    )


def _subjects(broker: BrokerApi, request: JoinRequest) -> RequestSubjects:
    return request_subjects(groups=[request.group_id])


API = ServedApi(
    key=11,
    name="JoinGroup",
    request=JoinGroupRequest,
    response=JoinGroupResponse,
    min_version=0,
    max_version=9,
    recorded_timeout_ms=lambda request: request.rebalance_timeout_ms,
    decode=_decode,
    handle=_join_group,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.GROUP}),
)
