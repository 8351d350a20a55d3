"""DescribeConfigs: describe the configs of topics and of this broker."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    BrokerConfig,
    ConfigSource,
    ResourceType,
    broker_config_name,
    broker_configs,
    topic_value,
)
from request_purgatory.broker.metadata.topics import Topic, topic_name_error
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.limits import truncate_message

_Result = DescribeConfigsResponse.DescribeConfigsResult
_Config = _Result.DescribeConfigsResourceResult
_Synonym = _Config.DescribeConfigsSynonym


def describe_configs(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a DescribeConfigs request: describe the configs of topics and of this broker."""
    # Each resource once: a small request that repeats a resource would have a huge response.
    resources = {(each.resource_type, each.resource_name): each for each in request.resources}
    results = [
        _describe(broker, each, synonyms=bool(request.include_synonyms))
        for each in resources.values()
    ]
    context.reply(DescribeConfigsResponse(results=results))


def _describe(broker: BrokerApi, resource: Any, *, synonyms: bool) -> Any:
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
        topic = broker.metadata.topics.get(name)
        if topic is None:
            return result(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
                [],
            )
        return result(ErrorCode.NONE, None, _describe_topic(broker, topic, keys, synonyms=synonyms))
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            # The dynamic defaults of all brokers, of which there are none.
            return result(ErrorCode.NONE, None, [])
        if name != str(broker.node_id):
            message = (
                f"Unexpected broker id, expected {broker.node_id} or empty string, "
                f"but received {name}"
            )
            return result(ErrorCode.INVALID_REQUEST, message, [])
        configs = [
            _broker_config(config)
            for config in broker_configs(broker.settings, broker.node_id)
            if keys is None or config.name in keys
        ]
        return result(ErrorCode.NONE, None, configs)
    return result(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}", []
    )


def _describe_topic(
    broker: BrokerApi, topic: Topic, keys: list[str] | None, *, synonyms: bool
) -> list[Any]:
    """Return a topic's configs: all of them, or those named in `keys`."""
    found = []
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


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every resource."""
    return DescribeConfigsResponse(
        results=[
            _Result(
                error_code=int(code),
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[],
            )
            for resource in request.resources
        ]
    )


API = ServedApi(
    key=32,
    name="DescribeConfigs",
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
    min_version=1,
    max_version=4,
    handle=describe_configs,
    error_response=error_response,
)
