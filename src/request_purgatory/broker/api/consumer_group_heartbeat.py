"""ConsumerGroupHeartbeat: refuse the newer group protocol (KIP-848) by name."""

from __future__ import annotations

from typing import Any

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from request_purgatory.broker.wire.error_code import ErrorCode


def consumer_group_heartbeat(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Refuse a ConsumerGroupHeartbeat request, as Kafka does without this group protocol.

    A client that does not find the API at all may wait for it for ever.
    """
    context.reply(
        ConsumerGroupHeartbeatResponse(
            error_code=int(ErrorCode.UNSUPPORTED_VERSION),
            error_message="Only the classic group protocol is supported: group.protocol=classic.",
        )
    )


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error."""
    return ConsumerGroupHeartbeatResponse(error_code=int(code))


API = ServedApi(
    key=68,
    name="ConsumerGroupHeartbeat",
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
    min_version=0,
    max_version=1,
    handle=consumer_group_heartbeat,
    error_response=error_response,
)
