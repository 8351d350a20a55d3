"""The messages of AlterConfigs.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_T = struct.Struct(">?")
_B = struct.Struct(">b")
_H = struct.Struct(">h")
_I = struct.Struct(">i")


class AlterableConfig(MessageStruct):
    """AlterableConfig of Kafka."""

    __slots__ = ("name", "value")
    name: str
    value: str | None

    def __init__(self, name: str = "", value: str | None = "") -> None:
        self.name = name
        self.value = value


class AlterConfigsResource(MessageStruct):
    """AlterConfigsResource of Kafka."""

    __slots__ = ("resource_type", "resource_name", "configs")
    resource_type: int
    resource_name: str
    configs: list[AlterableConfig]

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[AlterableConfig] = NEW_LIST,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is NEW_LIST else configs


class AlterConfigsRequest(MessageStruct):
    """AlterConfigsRequest of Kafka."""

    __slots__ = ("resources", "validate_only")
    resources: list[AlterConfigsResource]
    validate_only: bool

    def __init__(
        self, resources: list[AlterConfigsResource] = NEW_LIST, validate_only: bool = False
    ) -> None:
        self.resources = [] if resources is NEW_LIST else resources
        self.validate_only = validate_only


class AlterConfigsResourceResponse(MessageStruct):
    """AlterConfigsResourceResponse of Kafka."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class AlterConfigsResponse(MessageStruct):
    """AlterConfigsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "responses")
    throttle_time_ms: int
    responses: list[AlterConfigsResourceResponse]

    def __init__(
        self, throttle_time_ms: int = 0, responses: list[AlterConfigsResourceResponse] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is NEW_LIST else responses


def _read_alterable_config(reader: Reader, version: int) -> AlterableConfig:
    name = reader.string("name")
    value_ = reader.nullable_string("value")
    if version >= 2:
        reader.skip_tagged_fields()
    return AlterableConfig(name, value_)


def _read_alter_configs_resource(reader: Reader, version: int) -> AlterConfigsResource:
    (resource_type,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    resource_name = reader.string("resource_name")
    configs: list[AlterableConfig] = []
    for _ in range(reader.count("configs", 3)):
        configs.append(_read_alterable_config(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return AlterConfigsResource(resource_type, resource_name, configs)


def _read_alter_configs_request(reader: Reader, version: int) -> AlterConfigsRequest:
    resources: list[AlterConfigsResource] = []
    for _ in range(reader.count("resources", 4)):
        resources.append(_read_alter_configs_resource(reader, version))
    (validate_only,) = _T.unpack_from(reader.frame, reader.position)
    reader.position += 1
    if version >= 2:
        reader.skip_tagged_fields()
    return AlterConfigsRequest(resources, validate_only)


def _read_alter_configs_resource_response(
    reader: Reader, version: int
) -> AlterConfigsResourceResponse:
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    (resource_type,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    resource_name = reader.string("resource_name")
    if version >= 2:
        reader.skip_tagged_fields()
    return AlterConfigsResourceResponse(error_code, error_message, resource_type, resource_name)


def _read_alter_configs_response(reader: Reader, version: int) -> AlterConfigsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    responses: list[AlterConfigsResourceResponse] = []
    for _ in range(reader.count("responses", 6)):
        responses.append(_read_alter_configs_resource_response(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return AlterConfigsResponse(throttle_time_ms, responses)


def _write_alter_configs_resource_response(
    out: Writer, data: AlterConfigsResourceResponse, version: int
) -> None:
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    out += _B.pack(data.resource_type)
    out.string(data.resource_name)
    if version >= 2:
        out.append(0)


def _write_alter_configs_response(out: Writer, data: AlterConfigsResponse, version: int) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.responses))
    for alter_configs_resource_response in data.responses:
        _write_alter_configs_resource_response(out, alter_configs_resource_response, version)
    if version >= 2:
        out.append(0)


def _error_response(request: AlterConfigsRequest, code: int) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=None,
                resource_type=alter_configs_resource.resource_type,
                resource_name=alter_configs_resource.resource_name,
            )
            for alter_configs_resource in request.resources
        ]
    )


ALTER_CONFIGS_MESSAGES = ApiMessages(
    key=33,
    name="AlterConfigs",
    versions=(0, 2),
    flexible_since=2,
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
    read_request=_read_alter_configs_request,
    read_response=_read_alter_configs_response,
    write_response=_write_alter_configs_response,
    error_response=_error_response,
    fields={},
)
