"""DescribeConfigs and ListConfigResources: the configs of topics, groups and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from purgatory_broker._wire.api_messages import NamedTopic
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.describe_configs import (
    DESCRIBE_CONFIGS_MESSAGES,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from purgatory_broker._wire.protocol.list_config_resources import (
    LIST_CONFIG_RESOURCES_MESSAGES,
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from purgatory_broker.api.access import require
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import CLUSTER_NAME, AclOperation, AclResource
from purgatory_broker.metadata.broker_configs import (
    ALL_BROKERS,
    BROKER_CONFIGS,
    THROTTLES,
    changed_values,
)
from purgatory_broker.metadata.client_metrics import CLIENT_METRICS_CONFIGS
from purgatory_broker.metadata.resource_configs import GROUP_CONFIGS
from purgatory_broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    BrokerConfig,
    ConfigSource,
    ConfigType,
    ResourceType,
    TopicConfig,
    broker_config_name,
    broker_configs,
    topic_value,
)
from purgatory_broker.metadata.topics import ControllerError, Topic, topic_name_error
from purgatory_broker.request_context import RequestContext

#: The resources of ACLs for those of configs; the others are the cluster.
_ACL_RESOURCES = {
    ResourceType.TOPIC: AclResource.TOPIC,
    ResourceType.GROUP: AclResource.GROUP,
}


def require_config(
    broker: BrokerApi, context: RequestContext, operation: AclOperation, kind: int, name: str
) -> None:
    """Refuse an operation on the configs of a resource if it is not allowed."""
    if kind not in set(ResourceType):
        return  # Refused for its type.
    resource = _ACL_RESOURCES.get(ResourceType(kind), AclResource.CLUSTER)
    require(
        broker,
        context,
        operation,
        resource,
        CLUSTER_NAME if resource is AclResource.CLUSTER else name,
    )


def _describe_configs(
    broker: BrokerApi, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    # Each resource once: a small request that repeats a resource would have a huge response.
    resources = {
        (resource.resource_type, resource.resource_name): resource for resource in request.resources
    }
    results = []
    for resource in resources.values():
        code, message = ErrorCode.NONE, None
        configs: list[DescribeConfigsResourceResult] = []
        try:
            require_config(
                broker,
                context,
                AclOperation.DESCRIBE_CONFIGS,
                resource.resource_type,
                resource.resource_name,
            )
            configs = _configs_of(broker, resource, synonyms=request.include_synonyms)
        except ControllerError as refusal:
            code, message = refusal.code, str(refusal)
        results.append(
            DescribeConfigsResult(
                error_code=code,
                error_message=truncate_message(message),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=configs,
            )
        )
    return DescribeConfigsResponse(results=results)


def _configs_of(
    broker: BrokerApi, resource: DescribeConfigsResource, *, synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    name, keys = resource.resource_name, resource.configuration_keys
    if resource.resource_type == ResourceType.TOPIC:
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
    if resource.resource_type == ResourceType.BROKER:
        if name and name != str(broker.node_id):
            raise ControllerError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {broker.node_id} or empty string, "
                f"but received {name}",
            )
        describe = _own_configs if name else _configs_of_all_brokers
        configs = describe(broker, synonyms=synonyms)
    elif resource.resource_type == ResourceType.GROUP:
        if not name:
            raise ControllerError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        configs = _configs_or_defaults(
            broker,
            ResourceType.GROUP,
            name,
            GROUP_CONFIGS,
            ConfigSource.GROUP_CONFIG,
            synonyms=synonyms,
        )
    elif resource.resource_type == ResourceType.CLIENT_METRICS:
        if not name:
            raise ControllerError(
                ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
            )
        configs = _configs_or_defaults(
            broker,
            ResourceType.CLIENT_METRICS,
            name,
            CLIENT_METRICS_CONFIGS,
            ConfigSource.CLIENT_METRICS_CONFIG,
            synonyms=synonyms,
        )
        for config in configs:
            if config.config_source == ConfigSource.DEFAULT_CONFIG:
                config.synonyms = []
    else:
        raise ControllerError(
            ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"
        )
    return [config for config in configs if not keys or config.name in keys]


def _config(
    name: str,
    kind: ConfigType,
    sources: Sequence[tuple[str, str | None, ConfigSource]],
    *,
    synonyms: bool,
) -> DescribeConfigsResourceResult:
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


def _topic_configs(
    broker: BrokerApi, topic: Topic, *, synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    configs = []
    for name, config in TOPIC_CONFIGS.items():
        default = config.default(broker.static_settings)
        broker_name = broker_config_name(name)
        changed = changed_values(broker.metadata.resource_configs, broker.node_id, broker_name)
        sources = [(broker_name, given, source) for given, source in changed]
        sources.append((broker_name, default, ConfigSource.DEFAULT_CONFIG))
        value = topic_value(name, topic.configs, broker.settings)
        if name in topic.configs:
            sources.insert(0, (name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        described = _config(name, config.type, sources, synonyms=synonyms)
        # The value of `topic_defaults` has no source of its own.
        described.value = value
        configs.append(described)
    return configs


def _configs_or_defaults(
    broker: BrokerApi,
    kind: ResourceType,
    resource: str,
    known: Mapping[str, TopicConfig],
    own_source: ConfigSource,
    *,
    synonyms: bool,
) -> list[DescribeConfigsResourceResult]:
    """Return the configs of a group or a subscription, whether or not it exists."""
    own = broker.metadata.resource_configs.get((kind, resource), {})
    configs = []
    for name, config in known.items():
        value = own.get(name, config.default(broker.settings))
        source = own_source if name in own else ConfigSource.DEFAULT_CONFIG
        configs.append(_config(name, config.type, [(name, value, source)], synonyms=synonyms))
    return configs


def _own_configs(broker: BrokerApi, *, synonyms: bool) -> list[DescribeConfigsResourceResult]:
    """Return the configs of this broker: those that it was started with, and the changed ones."""
    given = {
        config.name: config for config in broker_configs(broker.static_settings, broker.node_id)
    }
    for name, config in BROKER_CONFIGS.items():
        # Without a default, a config is described if it has a value only.
        default = config.default(broker.static_settings)
        if default and name not in given:
            source = ConfigSource.DEFAULT_CONFIG
            given[name] = BrokerConfig(name, default, config.type, source)
    names = [*given, *(name for name in BROKER_CONFIGS if name not in given)]
    configs = []
    for name in names:
        changed = changed_values(broker.metadata.resource_configs, broker.node_id, name)
        values: list[tuple[str, str | None, ConfigSource]] = [
            (name, value, source) for value, source in changed
        ]
        kind = given[name].type if name in given else BROKER_CONFIGS[name].type
        if name in given:
            values.append((name, given[name].value, given[name].source))
        if values:
            configs.append(_broker_config(name, kind, values, synonyms=synonyms))
    return configs


def _configs_of_all_brokers(
    broker: BrokerApi, *, synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    changed = broker.metadata.resource_configs.get((ResourceType.BROKER, ALL_BROKERS), {})
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        _broker_config(name, BROKER_CONFIGS[name].type, [(name, value, source)], synonyms=synonyms)
        for name, value in changed.items()
    ]


def _broker_config(
    name: str,
    kind: ConfigType,
    sources: Sequence[tuple[str, str | None, ConfigSource]],
    *,
    synonyms: bool,
) -> DescribeConfigsResourceResult:
    config = _config(name, kind, sources, synonyms=synonyms)
    config.read_only = name not in BROKER_CONFIGS or name in THROTTLES
    config.is_sensitive = kind is ConfigType.PASSWORD
    return config


def _topics(broker: BrokerApi, request: DescribeConfigsRequest) -> Iterator[NamedTopic]:
    for resource in request.resources:
        if resource.resource_type == ResourceType.TOPIC:
            yield NamedTopic(resource.resource_name, None)


DESCRIBE_CONFIGS = ServedApi(
    messages=DESCRIBE_CONFIGS_MESSAGES,
    versions=(1, 4),
    answer=_describe_configs,
    more_topics=_topics,
)


#: The first version that names types of resources.
RESOURCE_TYPES_SINCE = 1


def _list_config_resources(
    broker: BrokerApi, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Handle a ListConfigResources request: groups are listed if they have own configs.

    Version 0 is for client metrics alone; later ones name types, or none for all of them.
    """
    wanted: set[int] = set(request.resource_types) or set(ResourceType)
    if context.version < RESOURCE_TYPES_SINCE:
        wanted = {ResourceType.CLIENT_METRICS}
    if not wanted <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    brokers = [str(node) for node in sorted(broker.metadata.alive())]
    names: dict[ResourceType, Iterable[str]] = {
        ResourceType.TOPIC: broker.metadata.topics,
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
        **{
            listed: [name for kind, name in broker.metadata.resource_configs if kind == listed]
            for listed in (ResourceType.CLIENT_METRICS, ResourceType.GROUP)
        },
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
    requires={AclResource.CLUSTER: AclOperation.DESCRIBE_CONFIGS},
    answer=_list_config_resources,
)
