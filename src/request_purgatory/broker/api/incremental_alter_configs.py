"""IncrementalAlterConfigs: change some configs of topics."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.config_changes import alter_topic
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.limits import truncate_message

_Altered = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


def incremental_alter_configs(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an IncrementalAlterConfigs request: change some configs of topics."""
    results = []
    for resource in request.resources:
        code, message = alter_topic(
            broker, resource, incremental=True, validate_only=bool(request.validate_only)
        )
        results.append(
            _Altered(
                error_code=int(code),
                error_message=truncate_message(message),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    context.reply(IncrementalAlterConfigsResponse(responses=results))


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every resource."""
    return IncrementalAlterConfigsResponse(
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
    key=44,
    name="IncrementalAlterConfigs",
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
    min_version=0,
    max_version=1,
    handle=incremental_alter_configs,
    error_response=error_response,
)
