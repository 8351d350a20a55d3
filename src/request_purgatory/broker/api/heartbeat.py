"""Heartbeat: stay a member of a group."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import HeartbeatRequest, HeartbeatResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.groups.requests import Heartbeat
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode


def heartbeat(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a Heartbeat request."""
    code = broker.groups.heartbeat(
        Heartbeat(
            group_id=request.group_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
        )
    )
    context.reply(HeartbeatResponse(throttle_time_ms=0, error_code=int(code)))


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error."""
    return HeartbeatResponse(error_code=int(code))


API = ServedApi(
    key=12,
    name="Heartbeat",
    request=HeartbeatRequest,
    response=HeartbeatResponse,
    min_version=0,
    max_version=4,
    handle=heartbeat,
    error_response=error_response,
)
