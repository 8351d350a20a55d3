"""Heartbeat: stay a member of a group."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import HeartbeatRequest, HeartbeatResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.groups.group_requests import Heartbeat
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode


def _decode(message: Any, context: RequestContext) -> Heartbeat:
    return Heartbeat(
        group_id=message.group_id,
        generation_id=message.generation_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
    )


def _heartbeat(broker: BrokerApi, context: RequestContext, request: Heartbeat) -> None:
    code = broker.groups.heartbeat(request)
    context.reply(HeartbeatResponse(throttle_time_ms=0, error_code=int(code)))


def _error_response(request: Heartbeat, code: ErrorCode) -> Any:
    return HeartbeatResponse(error_code=int(code))


def _subjects(broker: BrokerApi, request: Heartbeat) -> RequestSubjects:
    return request_subjects(groups=[request.group_id])


API = ServedApi(
    key=12,
    name="Heartbeat",
    request=HeartbeatRequest,
    response=HeartbeatResponse,
    min_version=0,
    max_version=4,
    decode=_decode,
    handle=_heartbeat,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.GROUP}),
)
