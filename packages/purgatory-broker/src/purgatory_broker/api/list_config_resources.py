"""ListConfigResources: list the resources that have configs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import ListConfigResourcesRequest, ListConfigResourcesResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.metadata.topic_configs import ResourceType
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode

_Resource = ListConfigResourcesResponse.ConfigResource

#: The first version that names types of resources.
RESOURCE_TYPES_SINCE = 1


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for the resources of some types; none is all types."""

    types: tuple[int, ...]


def _decode(message: Any, context: RequestContext) -> _Request:
    """Return what the handler needs of a request; version 0 is for client metrics alone."""
    if context.version < RESOURCE_TYPES_SINCE:
        return _Request((ResourceType.CLIENT_METRICS,))
    return _Request(tuple(message.resource_types))


def _list_config_resources(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    """Handle a ListConfigResources request: groups are listed if they have own configs."""
    wanted = set(request.types) or set(ResourceType)
    if not wanted <= set(ResourceType):
        context.reply(_error_response(request, ErrorCode.UNSUPPORTED_VERSION))
        return
    brokers = [str(node) for node in sorted(broker.metadata.alive())]
    names: dict[ResourceType, Iterable[str]] = {
        ResourceType.TOPIC: broker.metadata.topics,
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.CLIENT_METRICS: (),
        ResourceType.GROUP: [
            name for kind, name in broker.metadata.resource_configs if kind == ResourceType.GROUP
        ],
    }
    context.reply(
        ListConfigResourcesResponse(
            error_code=0,
            config_resources=[
                _Resource(resource_name=name, resource_type=int(kind))
                for kind in sorted(wanted)
                for name in names[ResourceType(kind)]
            ],
        )
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return ListConfigResourcesResponse(error_code=int(code), config_resources=[])


API = ServedApi(
    key=74,
    name="ListConfigResources",
    request=ListConfigResourcesRequest,
    response=ListConfigResourcesResponse,
    min_version=0,
    max_version=1,
    decode=_decode,
    handle=_list_config_resources,
    error_response=_error_response,
    subjects=no_subjects,
)
