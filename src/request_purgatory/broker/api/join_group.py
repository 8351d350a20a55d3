"""JoinGroup: become a member of a group's next generation."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import JoinGroupRequest, JoinGroupResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.broker.wire.limits import MAX_TEXT_BYTES

#: The most protocols that a member may offer; consumers offer two or three. The coordinator keeps
#: each as long as the member.
MAX_PROTOCOLS = 1_000
#: A member id is the client id or the instance id, a dash and a UUID.
_MEMBER_ID_SUFFIX_BYTES = 37


def join_group(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a JoinGroup request.

    Raises:
        WireError: There are too many protocols, or the client id or instance id is too long for the
            member id.
    """
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
    broker.groups.join_group(request, context.client, context.reply, context.version)


def recorded_timeout_ms(request: Any) -> int:
    """Return the rebalance timeout, in version 0 the session timeout."""
    timeout_ms = request.rebalance_timeout_ms
    return int(timeout_ms if timeout_ms >= 0 else request.session_timeout_ms)


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error."""
    return JoinGroupResponse(
        error_code=int(code),
        generation_id=-1,
        protocol_type=None,
        protocol_name="",
        leader="",
        member_id=request.member_id,
        members=[],
    )


API = ServedApi(
    key=11,
    name="JoinGroup",
    request=JoinGroupRequest,
    response=JoinGroupResponse,
    min_version=0,
    max_version=9,
    recorded_timeout_ms=recorded_timeout_ms,
    handle=join_group,
    error_response=error_response,
)
