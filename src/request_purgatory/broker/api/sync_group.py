"""SyncGroup: get the leader's assignment."""

from __future__ import annotations

import sys
from typing import Any

from kafka.protocol.consumer import SyncGroupRequest, SyncGroupResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.groups.requests import SyncRequest
from request_purgatory.broker.groups.results import SyncResult
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode

#: The first version that must name the protocol and its type.
PROTOCOL_SINCE = 5


def sync_group(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a SyncGroup request."""
    broker.groups.sync_group(
        decode(request, context.version), lambda result: context.reply(encode(result))
    )


def decode(request: Any, version: int) -> SyncRequest:
    """Return what the coordinator gets of a request."""
    return SyncRequest(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        requires_protocol=version >= PROTOCOL_SINCE,
        assignments={each.member_id: bytes(each.assignment) for each in request.assignments},
    )


def encode(result: SyncResult) -> Any:
    """Return the response."""
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=int(result.error),
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error."""
    return SyncGroupResponse(
        error_code=int(code), protocol_type=None, protocol_name=None, assignment=b""
    )


API = ServedApi(
    key=14,
    name="SyncGroup",
    request=SyncGroupRequest,
    response=SyncGroupResponse,
    min_version=0,
    max_version=5,
    # A sync waits for its group's rebalance, whose timeout is not in the request.
    recorded_timeout_ms=lambda _request: sys.maxsize,
    handle=sync_group,
    error_response=error_response,
)
