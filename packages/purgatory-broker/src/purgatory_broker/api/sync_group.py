"""SyncGroup: get the leader's assignment."""

from __future__ import annotations

import sys
from typing import Any

from kafka.protocol.consumer import SyncGroupRequest, SyncGroupResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.groups.group_requests import SyncRequest
from purgatory_broker.groups.group_results import SyncResult
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

#: The first version that must name the protocol and its type.
PROTOCOL_SINCE = 5


def _decode(message: Any, context: RequestContext) -> SyncRequest:
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
    broker.groups.sync_group(request, lambda result: context.reply(_encode(result)))


def _encode(result: SyncResult) -> Any:
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=int(result.error),
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


def _error_response(request: SyncRequest, code: ErrorCode) -> Any:
    return SyncGroupResponse(
        error_code=int(code), protocol_type=None, protocol_name=None, assignment=b""
    )


def _subjects(broker: BrokerApi, request: SyncRequest) -> RequestSubjects:
    return request_subjects(groups=[request.group_id])


API = ServedApi(
    key=14,
    name="SyncGroup",
    request=SyncGroupRequest,
    response=SyncGroupResponse,
    min_version=0,
    max_version=5,
    # A sync waits for its group's rebalance, whose timeout is not in the request.
    recorded_timeout_ms=lambda _request: sys.maxsize,
    decode=_decode,
    handle=_sync_group,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.GROUP}),
)
