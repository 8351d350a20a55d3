"""DescribeGroups: describe groups and their members."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode

_Group = DescribeGroupsResponse.DescribedGroup


def describe_groups(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a DescribeGroups request; a group that is named twice has one result."""
    request.groups = list(dict.fromkeys(request.groups))
    context.reply(broker.groups.describe_groups(request))


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every group."""
    return DescribeGroupsResponse(
        groups=[
            _Group(
                error_code=int(code),
                group_id=group_id,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=[],
            )
            for group_id in request.groups
        ]
    )


API = ServedApi(
    key=15,
    name="DescribeGroups",
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
    min_version=0,
    max_version=6,
    handle=describe_groups,
    error_response=error_response,
)
