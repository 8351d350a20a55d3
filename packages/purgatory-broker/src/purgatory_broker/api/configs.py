"""DescribeConfigs and ListConfigResources: the configs of topics, groups and brokers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, Subjects
from purgatory_broker.metadata.resource_configs import BROKER_CONFIGS, GROUP_CONFIGS
from purgatory_broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    BrokerConfig,
    ConfigSource,
    ResourceType,
    broker_config_name,
    broker_configs,
    topic_value,
)
from purgatory_broker.metadata.topics import Topic, topic_name_error
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.limits import truncate_message

_Described = DescribeConfigsResponse.DescribeConfigsResult
_Config = _Described.DescribeConfigsResourceResult
_Synonym = _Config.DescribeConfigsSynonym


@dataclass(frozen=True, slots=True)
class _DescribedResource:
    """A topic, a group or a broker, and the names of configs; None for all of them."""

    type: int
    name: str
    keys: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _DescribeConfigs:
    resources: tuple[_DescribedResource, ...]
    include_synonyms: bool


def _decode_describe_configs(message: Any, context: RequestContext) -> _DescribeConfigs:
    return _DescribeConfigs(
        tuple(
            _DescribedResource(
                resource.resource_type,
                resource.resource_name,
                None if resource.configuration_keys is None else tuple(resource.configuration_keys),
            )
            for resource in message.resources
        ),
        message.include_synonyms,
    )


def _describe_configs(broker: BrokerApi, context: RequestContext, request: _DescribeConfigs) -> Any:
    # Each resource once: a small request that repeats a resource would have a huge response.
    resources = {(resource.type, resource.name): resource for resource in request.resources}
    results = [
        _describe(broker, resource, synonyms=request.include_synonyms)
        for resource in resources.values()
    ]
    return DescribeConfigsResponse(results=results)


def _describe(broker: BrokerApi, resource: _DescribedResource, *, synonyms: bool) -> Any:
    name, keys = resource.name, resource.keys

    def wanted(config: str) -> bool:
        return not keys or config in keys

    def result(code: ErrorCode, message: str | None, configs: list[Any]) -> Any:
        return _Described(
            error_code=int(code),
            error_message=truncate_message(message),
            resource_type=resource.type,
            resource_name=name,
            configs=configs,
        )

    if resource.type == ResourceType.TOPIC:
        error = topic_name_error(name)
        if error is not None:
            return result(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {error}", [])
        topic = broker.metadata.topics.get(name)
        if topic is None:
            return result(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
                [],
            )
        return result(ErrorCode.NONE, None, _describe_topic(broker, topic, keys, synonyms=synonyms))
    if resource.type == ResourceType.BROKER:
        if not name:
            configs = _dynamic_broker_configs(broker, name)
            return result(
                ErrorCode.NONE, None, [config for config in configs if wanted(config.name)]
            )
        if name != str(broker.node_id):
            message = (
                f"Unexpected broker id, expected {broker.node_id} or empty string, "
                f"but received {name}"
            )
            return result(ErrorCode.INVALID_REQUEST, message, [])
        configs = [
            *map(_broker_config, broker_configs(broker.settings, broker.node_id)),
            *_dynamic_broker_configs(broker, name),
        ]
        return result(ErrorCode.NONE, None, [config for config in configs if wanted(config.name)])
    if resource.type == ResourceType.GROUP:
        if not name:
            return result(ErrorCode.INVALID_REQUEST, "Group name must not be empty", [])
        configs = _describe_group(broker, name, synonyms=synonyms)
        return result(ErrorCode.NONE, None, [config for config in configs if wanted(config.name)])
    return result(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.type}", [])


def _describe_topic(
    broker: BrokerApi, topic: Topic, keys: tuple[str, ...] | None, *, synonyms: bool
) -> list[Any]:
    results = []
    for name, config in TOPIC_CONFIGS.items():
        if keys is not None and name not in keys:
            continue
        value = topic_value(name, topic.configs, broker.settings)
        default = config.default(broker.settings)
        # The sources of the value, the effective one first.
        sources = []
        if name in topic.configs:
            sources.append((name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        sources.append((broker_config_name(name), default, ConfigSource.DEFAULT_CONFIG))
        results.append(
            _Config(
                name=name,
                value=value,
                read_only=False,
                config_source=int(sources[0][2]),
                is_sensitive=False,
                synonyms=[
                    _Synonym(name=key, value=text, source=int(source))
                    for key, text, source in sources
                ]
                if synonyms
                else [],
                config_type=int(config.type),
                documentation=None,
            )
        )
    return results


def _describe_group(broker: BrokerApi, group: str, *, synonyms: bool) -> list[Any]:
    """Return the configs of a group, whether or not the group exists."""
    own = broker.metadata.resource_configs.get((ResourceType.GROUP, group), {})
    results = []
    for name, config in GROUP_CONFIGS.items():
        value = own.get(name, config.default(broker.settings))
        source = ConfigSource.GROUP_CONFIG if name in own else ConfigSource.DEFAULT_CONFIG
        results.append(
            _Config(
                name=name,
                value=value,
                read_only=False,
                config_source=int(source),
                is_sensitive=False,
                synonyms=[_Synonym(name=name, value=value, source=int(source))] if synonyms else [],
                config_type=int(config.type),
                documentation=None,
            )
        )
    return results


def _dynamic_broker_configs(broker: BrokerApi, name: str) -> list[Any]:
    """Return the changed configs of a broker, or of all brokers if its name is empty."""
    own = broker.metadata.resource_configs.get((ResourceType.BROKER, name), {})
    of_all = broker.metadata.resource_configs.get((ResourceType.BROKER, ""), {})
    return [
        _broker_config(
            BrokerConfig(
                key,
                value,
                BROKER_CONFIGS[key].type,
                ConfigSource.DYNAMIC_BROKER_CONFIG
                if name and key in own
                else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
            )
        )
        for key, value in {**of_all, **own}.items()
    ]


def _broker_config(config: BrokerConfig) -> Any:
    return _Config(
        name=config.name,
        value=config.value,
        read_only=True,
        config_source=int(config.source),
        is_sensitive=config.is_sensitive,
        synonyms=[],
        config_type=int(config.type),
        documentation=None,
    )


def _refuse_describe_configs(request: _DescribeConfigs, code: ErrorCode) -> Any:
    return DescribeConfigsResponse(
        results=[
            _Described(
                error_code=int(code),
                error_message=None,
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[],
            )
            for resource in request.resources
        ]
    )


DESCRIBE_CONFIGS = ServedApi(
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
    versions=(1, 4),
    decode=_decode_describe_configs,
    answer=_describe_configs,
    error_response=_refuse_describe_configs,
    subjects=Subjects(
        topics=lambda _broker, request: (
            resource.name for resource in request.resources if resource.type == ResourceType.TOPIC
        )
    ),
)


_Resource = ListConfigResourcesResponse.ConfigResource

#: The first version that names types of resources.
RESOURCE_TYPES_SINCE = 1


@dataclass(frozen=True, slots=True)
class _ListConfigResources:
    """A request for the resources of some types; none is all types."""

    types: tuple[int, ...]


def _decode_list_config_resources(message: Any, context: RequestContext) -> _ListConfigResources:
    """Return what the handler needs of a request; version 0 is for client metrics alone."""
    if context.version < RESOURCE_TYPES_SINCE:
        return _ListConfigResources((ResourceType.CLIENT_METRICS,))
    return _ListConfigResources(tuple(message.resource_types))


def _list_config_resources(
    broker: BrokerApi, context: RequestContext, request: _ListConfigResources
) -> Any:
    """Handle a ListConfigResources request: groups are listed if they have own configs."""
    wanted = set(request.types) or set(ResourceType)
    if not wanted <= set(ResourceType):
        return _refuse_list_config_resources(request, ErrorCode.UNSUPPORTED_VERSION)
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
    return ListConfigResourcesResponse(
        error_code=0,
        config_resources=[
            _Resource(resource_name=name, resource_type=int(kind))
            for kind in sorted(wanted)
            for name in names[ResourceType(kind)]
        ],
    )


def _refuse_list_config_resources(request: _ListConfigResources, code: ErrorCode) -> Any:
    return ListConfigResourcesResponse(error_code=int(code), config_resources=[])


LIST_CONFIG_RESOURCES = ServedApi(
    request=ListConfigResourcesRequest,
    response=ListConfigResourcesResponse,
    versions=(0, 1),
    decode=_decode_list_config_resources,
    answer=_list_config_resources,
    error_response=_refuse_list_config_resources,
)
