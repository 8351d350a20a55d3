"""Heartbeat: stay a member of a group."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import HeartbeatRequest, HeartbeatResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode


def heartbeat(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a Heartbeat request."""
    context.reply(broker.groups.heartbeat(request))


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
