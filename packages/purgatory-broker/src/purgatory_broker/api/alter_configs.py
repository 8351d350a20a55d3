"""AlterConfigs: replace all configs."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import AlterConfigsRequest, AlterConfigsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.config_changes import Request, alter_resources, refuse_all, subjects
from purgatory_broker.api.config_changes import decode as decode_changes
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.request_context import RequestContext, Subject
from purgatory_broker.wire.error_code import ErrorCode


def _decode(message: Any, context: RequestContext) -> Request:
    return decode_changes(message, is_incremental=False)


def _alter_configs(broker: BrokerApi, context: RequestContext, request: Request) -> None:
    context.reply(alter_resources(broker, request, AlterConfigsResponse))


def _error_response(request: Request, code: ErrorCode) -> Any:
    return refuse_all(request, AlterConfigsResponse, code)


API = ServedApi(
    key=33,
    name="AlterConfigs",
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
    min_version=0,
    max_version=2,
    decode=_decode,
    handle=_alter_configs,
    error_response=_error_response,
    subjects=subjects,
    names=frozenset({Subject.TOPIC}),
)
