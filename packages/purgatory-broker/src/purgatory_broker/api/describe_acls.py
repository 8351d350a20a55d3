"""DescribeAcls: refused, as by a Kafka without an authorizer."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeAclsRequest, DescribeAclsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode


def _decode(message: Any, context: RequestContext) -> None:
    """Return None: what a request asks for does not matter."""


def _describe_acls(broker: BrokerApi, context: RequestContext, request: None) -> None:
    context.reply(
        DescribeAclsResponse(
            error_code=int(ErrorCode.SECURITY_DISABLED),
            error_message="No Authorizer is configured on the broker",
            resources=[],
        )
    )


def _error_response(request: None, code: ErrorCode) -> Any:
    return DescribeAclsResponse(error_code=int(code), error_message=None, resources=[])


API = ServedApi(
    key=29,
    name="DescribeAcls",
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
    min_version=1,
    max_version=3,
    decode=_decode,
    handle=_describe_acls,
    error_response=_error_response,
    subjects=no_subjects,
)
