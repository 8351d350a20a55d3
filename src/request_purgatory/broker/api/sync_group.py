"""SyncGroup: get the leader's assignment."""

from __future__ import annotations

import sys
from typing import Any

from kafka.protocol.consumer import SyncGroupRequest, SyncGroupResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode


def sync_group(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a SyncGroup request."""
    broker.groups.sync_group(request, context.reply)


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
