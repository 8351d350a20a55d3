"""Changes of topics' configs, which IncrementalAlterConfigs and AlterConfigs share."""

from __future__ import annotations

from typing import Any

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    ConfigType,
    ResourceType,
    topic_value,
)
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.limits import MAX_TEXT_BYTES, truncate_message

#: The operations of IncrementalAlterConfigs.
SET, DELETE, APPEND, SUBTRACT = _OPERATIONS = range(4)


def alter_topics(broker: BrokerApi, request: Any, response: Any, *, incremental: bool) -> Any:
    """Change the configs of all topics of a request.

    Args:
        broker: The broker.
        request: The request.
        response: The class of its response.
        incremental: Apply the operation of each change; False replaces all configs.

    Returns:
        The response.
    """
    results = []
    for resource in request.resources:
        code, message = _alter_topic(
            broker, resource, incremental=incremental, validate_only=bool(request.validate_only)
        )
        results.append(_result(response, resource, code, message))
    return response(responses=results)


def refuse_all(request: Any, response: Any, code: ErrorCode) -> Any:
    """Return the response of a class with an error for every resource of a request."""
    return response(
        responses=[_result(response, resource, code, None) for resource in request.resources]
    )


def _result(response: Any, resource: Any, code: ErrorCode, message: str | None) -> Any:
    return response.AlterConfigsResourceResponse(
        error_code=int(code),
        error_message=truncate_message(message),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _alter_topic(
    broker: BrokerApi, resource: Any, *, incremental: bool, validate_only: bool
) -> tuple[ErrorCode, str | None]:
    """Change the configs of one topic.

    Args:
        broker: The broker.
        resource: The element of the request.
        incremental: Apply the operation of each change; False replaces all configs.
        validate_only: Check the changes only.

    Returns:
        The error code and the message.
    """
    controller = broker.controller
    if not broker.reaches_controller:
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
        operation = change.config_operation if incremental else SET
        if operation not in _OPERATIONS:
            return (
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Unknown operation {operation} for {change.name}",
            )
        error = _apply_change(broker, configs, change, operation)
        if error is not None:
            return ErrorCode.INVALID_CONFIG, error
    if not validate_only:
        try:
            controller.alter_configs(topic.name, configs)
        except ControllerError as refusal:
            return refusal.code, str(refusal)
    return ErrorCode.NONE, None


def _apply_change(
    broker: BrokerApi, configs: dict[str, str], change: Any, operation: int
) -> str | None:
    """Apply one change to a topic's configs.

    Returns:
        The error message, or None.
    """
    config = TOPIC_CONFIGS.get(change.name)
    if config is None:
        return f"Unknown topic config name: {change.name}"
    if operation == DELETE:
        configs.pop(change.name, None)
        return None
    value = change.value
    if operation in (APPEND, SUBTRACT):
        if config.type is not ConfigType.LIST:
            return f"Config value append is not allowed for config key: {change.name}"
        present = dict.fromkeys(
            each for each in topic_value(change.name, configs, broker.settings).split(",") if each
        )
        given = dict.fromkeys((value or "").split(","))
        value = ",".join(
            present | given
            if operation == APPEND
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
