"""IncrementalAlterConfigs: change some configs of topics."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.config_changes import alter_topics, refuse_all
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode


def incremental_alter_configs(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an IncrementalAlterConfigs request: change some configs of topics."""
    context.reply(alter_topics(broker, request, IncrementalAlterConfigsResponse, incremental=True))


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every resource."""
    return refuse_all(request, IncrementalAlterConfigsResponse, code)


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
