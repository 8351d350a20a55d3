"""The handlers of DescribeConfigs, IncrementalAlterConfigs and AlterConfigs."""

from __future__ import annotations

from typing import Any

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    BrokerConfig,
    ConfigSource,
    ConfigType,
    ResourceType,
    broker_config_name,
    broker_configs,
    topic_value,
)
from request_purgatory.broker.metadata.topics import Topic, topic_name_error
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.limits import MAX_TEXT_BYTES, truncate_message

_Result = apis.DESCRIBE_CONFIGS.response.DescribeConfigsResult
_Config = _Result.DescribeConfigsResourceResult
_Synonym = _Config.DescribeConfigsSynonym

#: The operations of IncrementalAlterConfigs.
_SET, _DELETE, _APPEND, _SUBTRACT = _OPERATIONS = range(4)


def describe_configs(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a DescribeConfigs request: describe the configs of topics and of this broker."""
    # Each resource once: a small request that repeats a resource would have a huge response.
    resources = {(each.resource_type, each.resource_name): each for each in request.resources}
    results = [
        _describe(node, each, synonyms=bool(request.include_synonyms))
        for each in resources.values()
    ]
    context.reply(apis.DESCRIBE_CONFIGS.response(results=results))


def _describe(node: BrokerApi, resource: Any, *, synonyms: bool) -> Any:
    """Return the result of one resource."""
    name = resource.resource_name
    keys = resource.configuration_keys

    def result(code: ErrorCode, message: str | None, configs: list[Any]) -> Any:
        return _Result(
            error_code=int(code),
            error_message=truncate_message(message),
            resource_type=resource.resource_type,
            resource_name=name,
            configs=configs,
        )

    if resource.resource_type == ResourceType.TOPIC:
        error = topic_name_error(name)
        if error is not None:
            return result(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {error}", [])
        topic = node.metadata.topics.get(name)
        if topic is None:
            return result(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
                [],
            )
        return result(ErrorCode.NONE, None, _describe_topic(node, topic, keys, synonyms=synonyms))
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            # The dynamic defaults of all brokers, of which there are none.
            return result(ErrorCode.NONE, None, [])
        if name != str(node.node_id):
            message = (
                f"Unexpected broker id, expected {node.node_id} or empty string, "
                f"but received {name}"
            )
            return result(ErrorCode.INVALID_REQUEST, message, [])
        configs = [
            _broker_config(config)
            for config in broker_configs(node.settings, node.node_id)
            if keys is None or config.name in keys
        ]
        return result(ErrorCode.NONE, None, configs)
    return result(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}", []
    )


def _describe_topic(
    node: BrokerApi, topic: Topic, keys: list[str] | None, *, synonyms: bool
) -> list[Any]:
    """Return a topic's configs: all of them, or those named in `keys`."""
    found = []
    for name, config in TOPIC_CONFIGS.items():
        if keys is not None and name not in keys:
            continue
        value = topic_value(name, topic.configs, node.settings)
        default = config.default(node.settings)
        # The sources of the value, the effective one first.
        sources = []
        if name in topic.configs:
            sources.append((name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        sources.append((broker_config_name(name), default, ConfigSource.DEFAULT_CONFIG))
        found.append(
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
    return found


def incremental_alter_configs(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an IncrementalAlterConfigs request: change some configs of topics."""
    _alter(node, context, request, incremental=True)


def alter_configs(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an AlterConfigs request: replace all configs of topics."""
    _alter(node, context, request, incremental=False)


def _alter(node: BrokerApi, context: RequestContext, request: Any, *, incremental: bool) -> None:
    response = context.header.api.response
    results = []
    for resource in request.resources:
        code, message = _alter_topic(
            node, resource, incremental=incremental, validate_only=bool(request.validate_only)
        )
        results.append(
            response.AlterConfigsResourceResponse(
                error_code=int(code),
                error_message=truncate_message(message),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    context.reply(response(responses=results))


def _alter_topic(
    node: BrokerApi, resource: Any, *, incremental: bool, validate_only: bool
) -> tuple[ErrorCode, str | None]:
    """Change the configs of one topic.

    Returns:
        The error code and the message.
    """
    controller = node.controller
    if not node.reaches_controller:
        return ErrorCode.REQUEST_TIMED_OUT, "The controller can't be reached."
    if resource.resource_type != ResourceType.TOPIC:
        return (
            ErrorCode.INVALID_REQUEST,
            f"Only configs of topics can be changed, got resource type {resource.resource_type}.",
        )
    topic = controller.topics.get(resource.resource_name)
    if topic is None:
        return (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        )
    configs = dict(topic.configs) if incremental else {}
    for change in resource.configs:
        operation = change.config_operation if incremental else _SET
        if operation not in _OPERATIONS:
            return (
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Unknown operation {operation} for {change.name}",
            )
        error = _apply_change(node, configs, change, operation)
        if error is not None:
            return ErrorCode.INVALID_CONFIG, error
    if not validate_only:
        controller.alter_configs(topic.name, configs)
    return ErrorCode.NONE, None


def _apply_change(
    node: BrokerApi, configs: dict[str, str], change: Any, operation: int
) -> str | None:
    """Apply one change to a topic's configs.

    Returns:
        The error message, or None.
    """
    config = TOPIC_CONFIGS.get(change.name)
    if config is None:
        return f"Unknown topic config name: {change.name}"
    if operation == _DELETE:
        configs.pop(change.name, None)
        return None
    value = change.value
    if operation in (_APPEND, _SUBTRACT):
        if config.type is not ConfigType.LIST:
            return f"Config value append is not allowed for config key: {change.name}"
        present = dict.fromkeys(
            each for each in topic_value(change.name, configs, node.settings).split(",") if each
        )
        given = dict.fromkeys((value or "").split(","))
        value = ",".join(
            present | given
            if operation == _APPEND
            else (each for each in present if each not in given)
        )
    if value is not None and len(value.encode()) > MAX_TEXT_BYTES:
        # Older versions of DescribeConfigs can't encode a longer value. The message is Kafka's.
        return (
            "The configuration value cannot be added because it exceeds the maximum value size "
            f"of {MAX_TEXT_BYTES} bytes."
        )
    error = config.error(value)
    if error is None:
        configs[change.name] = value
    return error


def _broker_config(config: BrokerConfig) -> Any:
    return _Config(
        name=config.name,
        value=config.value,
        read_only=True,
        config_source=int(config.source),
        is_sensitive=False,
        synonyms=[],
        config_type=int(config.type),
        documentation=None,
    )
