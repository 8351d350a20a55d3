"""DescribeConfigs and ListConfigResources: the configs of topics, groups and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.describe_configs import (
    DESCRIBE_CONFIGS_MESSAGES,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from purgatory_broker._wire.protocol.list_config_resources import (
    LIST_CONFIG_RESOURCES_MESSAGES,
    ConfigResource,
    ListConfigResourcesResponse,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, Subjects
from purgatory_broker.metadata.resource_configs import BROKER_CONFIGS, GROUP_CONFIGS
from purgatory_broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    BrokerConfig,
    ConfigSource,
    ConfigType,
    ResourceType,
    broker_config_name,
    broker_configs,
    topic_value,
)
from purgatory_broker.metadata.topics import ControllerError, Topic, topic_name_error
from purgatory_broker.request_context import RequestContext


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
    results = []
    for resource in resources.values():
        try:
            configs = _configs_of(broker, resource, synonyms=request.include_synonyms)
            results.append(_described(resource, ErrorCode.NONE, None, configs))
        except ControllerError as refusal:
            results.append(_described(resource, refusal.code, str(refusal)))
    return DescribeConfigsResponse(results=results)


def _described(
    resource: _DescribedResource, code: ErrorCode, message: str | None, configs: Sequence[Any] = ()
) -> Any:
    return DescribeConfigsResult(
        error_code=int(code),
        error_message=truncate_message(message),
        resource_type=resource.type,
        resource_name=resource.name,
        configs=list(configs),
    )


def _configs_of(broker: BrokerApi, resource: _DescribedResource, *, synonyms: bool) -> list[Any]:
    name, keys = resource.name, resource.keys
    if resource.type == ResourceType.TOPIC:
        error = topic_name_error(name)
        if error is not None:
            raise ControllerError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {error}"
            )
        topic = broker.metadata.topics.get(name)
        if topic is None:
            raise ControllerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        configs = _topic_configs(broker, topic, synonyms=synonyms)
        return [config for config in configs if keys is None or config.name in keys]
    if resource.type == ResourceType.BROKER:
        configs = _dynamic_broker_configs(broker, name)
        if name and name != str(broker.node_id):
            raise ControllerError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {broker.node_id} or empty string, "
                f"but received {name}",
            )
        if name:
            static = map(_broker_config, broker_configs(broker.settings, broker.node_id))
            configs = [*static, *configs]
    elif resource.type == ResourceType.GROUP:
        if not name:
            raise ControllerError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        configs = _group_configs(broker, name, synonyms=synonyms)
    else:
        raise ControllerError(
            ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.type}"
        )
    return [config for config in configs if not keys or config.name in keys]


def _config(
    name: str,
    kind: ConfigType,
    sources: Sequence[tuple[str, str | None, ConfigSource]],
    *,
    synonyms: bool,
) -> Any:
    """Return a config; `sources` are names, values and kinds, the effective source first."""
    _, value, source = sources[0]
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        config_source=int(source),
        synonyms=[
            DescribeConfigsSynonym(name=key, value=text, source=int(source))
            for key, text, source in sources
        ]
        if synonyms
        else [],
        config_type=int(kind),
        documentation=None,
    )


def _topic_configs(broker: BrokerApi, topic: Topic, *, synonyms: bool) -> list[Any]:
    configs = []
    for name, config in TOPIC_CONFIGS.items():
        default = config.default(broker.settings)
        sources = [(broker_config_name(name), default, ConfigSource.DEFAULT_CONFIG)]
        value = topic_value(name, topic.configs, broker.settings)
        if name in topic.configs:
            sources.insert(0, (name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        described = _config(name, config.type, sources, synonyms=synonyms)
        # The value of `topic_defaults` has no source of its own.
        described.value = value
        configs.append(described)
    return configs


def _group_configs(broker: BrokerApi, group: str, *, synonyms: bool) -> list[Any]:
    """Return the configs of a group, whether or not the group exists."""
    own = broker.metadata.resource_configs.get((ResourceType.GROUP, group), {})
    configs = []
    for name, config in GROUP_CONFIGS.items():
        value = own.get(name, config.default(broker.settings))
        source = ConfigSource.GROUP_CONFIG if name in own else ConfigSource.DEFAULT_CONFIG
        configs.append(_config(name, config.type, [(name, value, source)], synonyms=synonyms))
    return configs


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
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=True,
        config_source=int(config.source),
        is_sensitive=config.type is ConfigType.PASSWORD,
        synonyms=[],
        config_type=int(config.type),
        documentation=None,
    )


def _refuse_describe_configs(request: _DescribeConfigs, code: ErrorCode) -> Any:
    return DescribeConfigsResponse(
        results=[_described(resource, code, None) for resource in request.resources]
    )


DESCRIBE_CONFIGS = ServedApi(
    messages=DESCRIBE_CONFIGS_MESSAGES,
    versions=(1, 4),
    decode=_decode_describe_configs,
    answer=_describe_configs,
    refuse=_refuse_describe_configs,
    subjects=Subjects(
        topics=lambda _broker, request: (
            resource.name for resource in request.resources if resource.type == ResourceType.TOPIC
        )
    ),
)


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
        return ListConfigResourcesResponse(
            error_code=int(ErrorCode.UNSUPPORTED_VERSION), config_resources=[]
        )
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
        config_resources=[
            ConfigResource(resource_name=name, resource_type=int(kind))
            for kind in sorted(wanted)
            for name in names[ResourceType(kind)]
        ]
    )


LIST_CONFIG_RESOURCES = ServedApi(
    messages=LIST_CONFIG_RESOURCES_MESSAGES,
    versions=(0, 1),
    decode=_decode_list_config_resources,
    answer=_list_config_resources,
)
