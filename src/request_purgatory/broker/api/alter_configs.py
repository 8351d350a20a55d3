"""AlterConfigs: replace all configs of topics."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import AlterConfigsRequest, AlterConfigsResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.config_changes import alter_topic
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.limits import truncate_message

_Altered = AlterConfigsResponse.AlterConfigsResourceResponse


def alter_configs(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an AlterConfigs request: replace all configs of topics."""
    results = []
    for resource in request.resources:
        code, message = alter_topic(
            broker, resource, incremental=False, validate_only=bool(request.validate_only)
        )
        results.append(
            _Altered(
                error_code=int(code),
                error_message=truncate_message(message),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    context.reply(AlterConfigsResponse(responses=results))


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every resource."""
    return AlterConfigsResponse(
        responses=[
            _Altered(
                error_code=int(code),
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


API = ServedApi(
    key=33,
    name="AlterConfigs",
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
    min_version=0,
    max_version=2,
    handle=alter_configs,
    error_response=error_response,
)
