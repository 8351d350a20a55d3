"""IncrementalAlterConfigs and AlterConfigs: change some configs, or replace all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from purgatory_broker._wire.api_messages import NamedTopic
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol import alter_configs, incremental_alter_configs
from purgatory_broker._wire.protocol.alter_configs import (
    ALTER_CONFIGS_MESSAGES,
    AlterConfigsRequest,
    AlterConfigsResponse,
)
from purgatory_broker._wire.protocol.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS_MESSAGES,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from purgatory_broker._wire.reader import MAX_TEXT_BYTES
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.configs import require_config
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation
from purgatory_broker.metadata.broker_configs import BROKER_CONFIGS
from purgatory_broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    ConfigType,
    ResourceType,
    topic_value,
)
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.request_context import RequestContext

#: The operations of IncrementalAlterConfigs.
SET, DELETE, APPEND, SUBTRACT = _OPERATIONS = range(4)


@dataclass(frozen=True, slots=True)
class _ConfigChange:
    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class _ConfigResource:
    type: int
    name: str
    changes: list[_ConfigChange]


def _incremental_alter_configs(
    broker: BrokerApi, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    resources = [
        _ConfigResource(
            resource.resource_type,
            resource.resource_name,
            [
                _ConfigChange(change.name, change.config_operation, change.value)
                for change in resource.configs
            ],
        )
        for resource in request.resources
    ]
    changes = _Changes(
        resources=resources, validate_only=request.validate_only, is_incremental=True
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=code,
                error_message=truncate_message(message),
                resource_type=resource.type,
                resource_name=resource.name,
            )
            for resource, code, message in changes.make(broker, context)
        ]
    )


def _alter_configs(
    broker: BrokerApi, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    resources = [
        _ConfigResource(
            resource.resource_type,
            resource.resource_name,
            [_ConfigChange(change.name, SET, change.value) for change in resource.configs],
        )
        for resource in request.resources
    ]
    changes = _Changes(
        resources=resources, validate_only=request.validate_only, is_incremental=False
    )
    return AlterConfigsResponse(
        responses=[
            alter_configs.AlterConfigsResourceResponse(
                error_code=code,
                error_message=truncate_message(message),
                resource_type=resource.type,
                resource_name=resource.name,
            )
            for resource, code, message in changes.make(broker, context)
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    resources: list[_ConfigResource]
    validate_only: bool
    #: Apply the operation of each change; False replaces all configs.
    is_incremental: bool

    def make(
        self, broker: BrokerApi, context: RequestContext
    ) -> Iterator[tuple[_ConfigResource, ErrorCode, str | None]]:
        """Make the changes; yield each resource, its error and the error's message."""
        counts = Counter((resource.type, resource.name) for resource in self.resources)
        for resource in self.resources:
            code: ErrorCode = ErrorCode.NONE
            message: str | None = None
            if not broker.reaches_controller:
                code, message = ErrorCode.REQUEST_TIMED_OUT, "The controller can't be reached."
            elif counts[resource.type, resource.name] > 1:
                code, message = ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
            else:
                try:
                    require_config(
                        broker, context, AclOperation.ALTER_CONFIGS, resource.type, resource.name
                    )
                    _alter(broker, self, resource)
                except ControllerError as error:
                    code, message = error.code, str(error)
            yield resource, code, message


def _alter(broker: BrokerApi, request: _Changes, resource: _ConfigResource) -> None:
    error = _form_error(broker, resource)
    if error is not None:
        raise ControllerError(ErrorCode.INVALID_REQUEST, error)
    if resource.type == ResourceType.TOPIC:
        _alter_topic(broker, request, resource)
    else:
        _alter_other(broker, request, resource)


def _form_error(broker: BrokerApi, resource: _ConfigResource) -> str | None:
    """Return why a change is not well-formed, or not for this broker; None if it is."""
    names = [change.name for change in resource.changes]
    if len(set(names)) < len(names):
        return "Error due to duplicate config keys"
    nulls = [
        change.name
        for change in resource.changes
        if change.value is None and change.operation != DELETE
    ]
    if nulls:
        return f"Null value not supported for : {', '.join(nulls)}"
    if resource.type == ResourceType.BROKER and resource.name not in ("", str(broker.node_id)):
        return f"Unexpected broker id, expected {broker.node_id}, but received {resource.name}"
    if resource.type == ResourceType.GROUP and not resource.name:
        return "Default group resources are not allowed."
    if resource.type == ResourceType.CLIENT_METRICS and not resource.name:
        return "Subscription name can't be empty"
    if resource.type not in set(ResourceType) - {ResourceType.BROKER_LOGGER}:
        return (
            "Only configs of topics, groups, brokers and client metrics can be changed, got "
            f"resource type {resource.type}."
        )
    return None


def _alter_other(broker: BrokerApi, request: _Changes, resource: _ConfigResource) -> None:
    controller, kind = broker.controller, ResourceType(resource.type)
    present = controller.resource_configs.get((kind, resource.name), {})
    configs = dict(present) if request.is_incremental else {}

    def list_value(name: str) -> str | None:
        config = BROKER_CONFIGS.get(name)
        if kind is not ResourceType.BROKER or config is None or config.type is not ConfigType.LIST:
            return None
        return configs.get(name, config.default(broker.static_settings))

    _apply(configs, resource, list_value)
    controller.config_changes.alter(
        kind, resource.name, configs, validate_only=request.validate_only
    )


def _alter_topic(broker: BrokerApi, request: _Changes, resource: _ConfigResource) -> None:
    topic = broker.controller.require_topic(resource.name)
    configs = dict(topic.configs) if request.is_incremental else {}
    for change in resource.changes:
        if change.name not in TOPIC_CONFIGS:
            raise ControllerError(
                ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {change.name}"
            )

    def list_value(name: str) -> str | None:
        is_list = TOPIC_CONFIGS[name].type is ConfigType.LIST
        return topic_value(name, configs, broker.settings) if is_list else None

    _apply(configs, resource, list_value)
    for change in resource.changes:
        error = TOPIC_CONFIGS[change.name].error(configs.get(change.name, ""))
        if error is not None and change.name in configs:
            raise ControllerError(ErrorCode.INVALID_CONFIG, error)
    if not request.validate_only:
        broker.controller.topic_changes.alter_configs(topic.name, configs)


def _apply(
    configs: dict[str, str], resource: _ConfigResource, list_value: Callable[[str], str | None]
) -> None:
    """`list_value` returns the present value of a config; None if it is no list."""
    for change in resource.changes:
        if change.operation not in _OPERATIONS:
            raise ControllerError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Unknown operation {change.operation} for {change.name}",
            )
        if change.operation == DELETE:
            configs.pop(change.name, None)
            continue
        value = change.value or ""
        if change.operation in (APPEND, SUBTRACT):
            present = list_value(change.name)
            if present is None:
                raise ControllerError(
                    ErrorCode.INVALID_CONFIG,
                    f"Config value append is not allowed for config key: {change.name}",
                )
            value = _changed_list(present, value, is_addition=change.operation == APPEND)
        if len(value.encode()) > MAX_TEXT_BYTES:
            # Older versions of DescribeConfigs can't encode a longer value. The message is Kafka's.
            raise ControllerError(
                ErrorCode.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value "
                f"size of {MAX_TEXT_BYTES} bytes.",
            )
        configs[change.name] = value


def _changed_list(present: str, given: str, *, is_addition: bool) -> str:
    elements = dict.fromkeys(element for element in present.split(",") if element)
    changed = dict.fromkeys(given.split(","))
    return ",".join(
        elements | changed
        if is_addition
        else (element for element in elements if element not in changed)
    )


def _topics(
    broker: BrokerApi, request: IncrementalAlterConfigsRequest | AlterConfigsRequest
) -> Iterator[NamedTopic]:
    for resource in request.resources:
        if resource.resource_type == ResourceType.TOPIC:
            yield NamedTopic(resource.resource_name, None)


INCREMENTAL_ALTER_CONFIGS = ServedApi(
    messages=INCREMENTAL_ALTER_CONFIGS_MESSAGES,
    versions=(0, 1),
    answer=_incremental_alter_configs,
    more_topics=_topics,
)

ALTER_CONFIGS = ServedApi(
    messages=ALTER_CONFIGS_MESSAGES,
    versions=(0, 2),
    answer=_alter_configs,
    more_topics=_topics,
)
