"""ApiVersions: list the APIs and their versions."""

from __future__ import annotations

from collections.abc import Iterable

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.api_versions import (
    API_VERSIONS_MESSAGES,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.topic_configs import ResourceType
from purgatory_broker.request_context import RequestContext

#: The first version with the client software's name (KIP-511).
CLIENT_SOFTWARE_SINCE = 3
#: The first version whose clients know features whose lowest level is 0.
LEVEL_0_SINCE = 4
#: They are advertised while there are subscriptions: clients would ask for them at each start. In
#: Kafka they are if it has a plugin that receives metrics.
TELEMETRY = ("GetTelemetrySubscriptions", "PushTelemetry")
#: The features that clients look at, and their highest levels. With `group.version` 1 there is the
#: consumer protocol, with `share.version` 1 there are share groups.
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
MAX_LEVELS = {GROUP_VERSION: 1, SHARE_VERSION: 1, TRANSACTION_VERSION: 2}


def _api_versions(
    broker: BrokerApi, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    """Answer; an unsupported version gets the supported versions of ApiVersions only."""
    is_supported = context.header.is_supported
    if is_supported and context.version >= CLIENT_SOFTWARE_SINCE:
        software = request.client_software_name, request.client_software_version
        if not all(map(_is_software_name, software)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.software = software
    if is_supported and context.login is not None:
        context.login.note_versions()
    code = ErrorCode.NONE if is_supported else ErrorCode.UNSUPPORTED_VERSION
    advertised: Iterable[Api] = broker.apis.values() if is_supported else [API_VERSIONS]
    keys = []
    for api in sorted(advertised, key=lambda api: api.key):
        if api.name in TELEMETRY and not _has_subscriptions(broker):
            continue
        min_version, max_version = api.advertised_versions
        keys.append(ApiVersion(api_key=api.key, min_version=min_version, max_version=max_version))
    response = ApiVersionsResponse(error_code=code, api_keys=keys)
    if is_supported:
        levels = {
            GROUP_VERSION: 1,
            SHARE_VERSION: 1,
            TRANSACTION_VERSION: broker.settings.transaction_version,
        }
        _add_features(response, levels, context.version)
    return response


def _has_subscriptions(broker: BrokerApi) -> bool:
    return any(kind == ResourceType.CLIENT_METRICS for kind, _ in broker.metadata.resource_configs)


def _add_features(response: ApiVersionsResponse, levels: dict[str, int], version: int) -> None:
    """Tell the levels of the features that decide what clients may send.

    Old clients do not know features whose lowest level is 0.
    """
    if version >= LEVEL_0_SINCE:
        response.supported_features = [
            SupportedFeatureKey(name=name, min_version=0, max_version=MAX_LEVELS[name])
            for name in levels
        ]
    response.finalized_features_epoch = 0
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in levels.items()
        if level
    ]


def _is_software_name(name: str) -> bool:
    return (
        bool(name)
        and name[0].isalnum()
        and name[-1].isalnum()
        and all(character.isalnum() or character in "-." for character in name)
    )


API_VERSIONS = ServedApi(
    messages=API_VERSIONS_MESSAGES,
    versions=(0, 4),
    answers_unsupported_versions=True,
    # A client reads the header before it knows which versions the broker has (KIP-511).
    has_tagged_header=False,
    answer=_api_versions,
)
