"""AlterConfigs: replace all configs of topics."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import AlterConfigsRequest, AlterConfigsResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.config_changes import alter_topics, refuse_all
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode


def alter_configs(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an AlterConfigs request: replace all configs of topics."""
    context.reply(alter_topics(broker, request, AlterConfigsResponse, incremental=False))


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every resource."""
    return refuse_all(request, AlterConfigsResponse, code)


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
