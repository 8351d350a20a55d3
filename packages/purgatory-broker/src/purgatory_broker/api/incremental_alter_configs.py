"""IncrementalAlterConfigs: change some configs."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.config_changes import Request, alter_resources, refuse_all, subjects
from purgatory_broker.api.config_changes import decode as decode_changes
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.request_context import RequestContext, Subject
from purgatory_broker.wire.error_code import ErrorCode


def _decode(message: Any, context: RequestContext) -> Request:
    return decode_changes(message, is_incremental=True)


def _incremental_alter_configs(
    broker: BrokerApi, context: RequestContext, request: Request
) -> None:
    context.reply(alter_resources(broker, request, IncrementalAlterConfigsResponse))


def _error_response(request: Request, code: ErrorCode) -> Any:
    return refuse_all(request, IncrementalAlterConfigsResponse, code)


API = ServedApi(
    key=44,
    name="IncrementalAlterConfigs",
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
    min_version=0,
    max_version=1,
    decode=_decode,
    handle=_incremental_alter_configs,
    error_response=_error_response,
    subjects=subjects,
    names=frozenset({Subject.TOPIC}),
)
