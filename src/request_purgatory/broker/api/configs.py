"""DescribeConfigs, and the two that change settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from request_purgatory.broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    BrokerConfig,
    ConfigSource,
    ConfigType,
    ResourceType,
    broker_configs,
    broker_name,
    topic_value,
)
from request_purgatory.broker.metadata.topics import Topic, name_fault
from request_purgatory.broker.server.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.limits import MAX_TEXT_BYTES, told

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.node import Node

_Result = apis.DESCRIBE_CONFIGS.response.DescribeConfigsResult
_Config = _Result.DescribeConfigsResourceResult
_SET, _DELETE, _APPEND, _SUBTRACT = _OPERATIONS = range(4)
_Synonym = _Config.DescribeConfigsSynonym


def describe_configs(node: Node, context: RequestContext, request: Any) -> None:
    """The settings of topics and nodes."""
    # Each once, however often it is asked for: few bytes of a request make many of an answer.
    once = {(each.resource_type, each.resource_name): each for each in request.resources}
    results = [
        _described(node, each, synonyms=bool(request.include_synonyms)) for each in once.values()
    ]
    context.reply(apis.DESCRIBE_CONFIGS.response(results=results))


def _described(node: Node, asked: Any, *, synonyms: bool) -> Any:
    name = asked.resource_name
    keys = asked.configuration_keys

    def result(code: ErrorCode, message: str | None, configs: list[Any]) -> Any:
        return _Result(
            error_code=int(code),
            error_message=told(message),
            resource_type=asked.resource_type,
            resource_name=name,
            configs=configs,
        )

    if asked.resource_type == ResourceType.TOPIC:
        fault = name_fault(name)
        if fault is not None:
            return result(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}", [])
        topic = node.topics.get(name)
        if topic is None:
            return result(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
                [],
            )
        return result(ErrorCode.NONE, None, _of_topic(node, topic, keys, synonyms=synonyms))
    if asked.resource_type == ResourceType.BROKER:
        if not name:
            return result(ErrorCode.NONE, None, [])  # What is set for all brokers: nothing.
        if name != str(node.node_id):
            message = f"Unexpected broker id, expected {node.node_id} or empty string, but received {name}"
            return result(ErrorCode.INVALID_REQUEST, message, [])
        found = [
            _of_broker(each)
            for each in broker_configs(node.settings, node.node_id)
            if keys is None or each.name in keys
        ]
        return result(ErrorCode.NONE, None, found)
    return result(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {asked.resource_type}", []
    )


def _of_topic(node: Node, topic: Topic, keys: list[str] | None, *, synonyms: bool) -> list[Any]:
    found = []
    for name, config in TOPIC_CONFIGS.items():
        if keys is not None and name not in keys:
            continue
        value = topic_value(name, topic.configs, node.settings)
        default = config.default(node.settings)
        same = [(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG)] if name in topic.configs else []
        same.append((broker_name(name), default, ConfigSource.DEFAULT_CONFIG))
        found.append(
            _Config(
                name=name,
                value=value,
                read_only=False,
                config_source=int(same[0][2]),
                is_sensitive=False,
                synonyms=[
                    _Synonym(name=which, value=text, source=int(source))
                    for which, text, source in same
                ]
                if synonyms
                else [],
                config_type=int(config.type),
                documentation=None,
            )
        )
    return found


def incremental_alter_configs(node: Node, context: RequestContext, request: Any) -> None:
    """Change settings of topics, one at a time or by what is in their lists."""
    _alter(node, context, request, incremental=True)


def alter_configs(node: Node, context: RequestContext, request: Any) -> None:
    """Give topics other settings; what is not among them is the default."""
    _alter(node, context, request, incremental=False)


def _alter(node: Node, context: RequestContext, request: Any, *, incremental: bool) -> None:
    response = context.header.api.response
    results = []
    for each in request.resources:
        code, message = _altered(
            node, each, incremental=incremental, validate_only=bool(request.validate_only)
        )
        results.append(
            response.AlterConfigsResourceResponse(
                error_code=int(code),
                error_message=told(message),
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
        )
    context.reply(response(responses=results))


def _altered(
    node: Node, asked: Any, *, incremental: bool, validate_only: bool
) -> tuple[ErrorCode, str | None]:
    controller = node.cluster.controller
    if not node.reaches_controller:
        return ErrorCode.REQUEST_TIMED_OUT, "The controller can't be reached."
    if asked.resource_type != ResourceType.TOPIC:
        return (
            ErrorCode.INVALID_REQUEST,
            f"Only settings of topics can be changed here, not of type {asked.resource_type}.",
        )
    topic = controller.topics.get(asked.resource_name)
    if topic is None:
        return (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        )
    configs = dict(topic.configs) if incremental else {}
    for change in asked.configs:
        operation = change.config_operation if incremental else _SET
        if operation not in _OPERATIONS:
            return (
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Unknown operation {operation} for {change.name}",
            )
        fault = _change(node, configs, change, operation)
        if fault is not None:
            return ErrorCode.INVALID_CONFIG, fault
    if not validate_only:
        controller.set_configs(topic.name, configs)
    return ErrorCode.NONE, None


def _change(node: Node, configs: dict[str, str], change: Any, operation: int) -> str | None:
    """Change one of a topic's settings; what is wrong with that, or None."""
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
        # What older versions of DescribeConfigs could not tell. In Kafka's words.
        return f"The configuration value cannot be added because it exceeds the maximum value size of {MAX_TEXT_BYTES} bytes."
    fault = config.fault(value)
    if fault is None:
        configs[change.name] = value
    return fault


def _of_broker(config: BrokerConfig) -> Any:
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
