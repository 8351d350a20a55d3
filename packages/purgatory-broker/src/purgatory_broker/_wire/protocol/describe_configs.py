"""The messages of DescribeConfigs.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_T = struct.Struct(">?")
_TT = struct.Struct(">??")
_TBT = struct.Struct(">?b?")
_B = struct.Struct(">b")
_H = struct.Struct(">h")
_I = struct.Struct(">i")


class DescribeConfigsResource(MessageStruct):
    """DescribeConfigsResource of Kafka."""

    __slots__ = ("resource_type", "resource_name", "configuration_keys")
    resource_type: int
    resource_name: str
    configuration_keys: list[str] | None

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: list[str] | None = NEW_LIST,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = [] if configuration_keys is NEW_LIST else configuration_keys


class DescribeConfigsRequest(MessageStruct):
    """DescribeConfigsRequest of Kafka."""

    __slots__ = ("resources", "include_synonyms", "include_documentation")
    resources: list[DescribeConfigsResource]
    include_synonyms: bool
    include_documentation: bool

    def __init__(
        self,
        resources: list[DescribeConfigsResource] = NEW_LIST,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = [] if resources is NEW_LIST else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsSynonym(MessageStruct):
    """DescribeConfigsSynonym of Kafka."""

    __slots__ = ("name", "value", "source")
    name: str
    value: str | None
    source: int

    def __init__(self, name: str = "", value: str | None = "", source: int = 0) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsResourceResult(MessageStruct):
    """DescribeConfigsResourceResult of Kafka."""

    __slots__ = (
        "name",
        "value",
        "read_only",
        "config_source",
        "is_sensitive",
        "synonyms",
        "config_type",
        "documentation",
    )
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: int
    documentation: str | None

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] = NEW_LIST,
        config_type: int = 0,
        documentation: str | None = "",
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = [] if synonyms is NEW_LIST else synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsResult(MessageStruct):
    """DescribeConfigsResult of Kafka."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: list[DescribeConfigsResourceResult]

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] = NEW_LIST,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is NEW_LIST else configs


class DescribeConfigsResponse(MessageStruct):
    """DescribeConfigsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "results")
    throttle_time_ms: int
    results: list[DescribeConfigsResult]

    def __init__(
        self, throttle_time_ms: int = 0, results: list[DescribeConfigsResult] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW_LIST else results


def _read_describe_configs_resource(reader: Reader, version: int) -> DescribeConfigsResource:
    (resource_type,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    resource_name = reader.string("resource_name")
    configuration_keys = reader.nullable_strings("configuration_keys")
    if version >= 4:
        reader.skip_tagged_fields()
    return DescribeConfigsResource(resource_type, resource_name, configuration_keys)


def _read_describe_configs_request(reader: Reader, version: int) -> DescribeConfigsRequest:
    include_documentation: bool = False
    resources: list[DescribeConfigsResource] = []
    for _ in range(reader.count("resources", 4)):
        resources.append(_read_describe_configs_resource(reader, version))
    if version >= 3:
        include_synonyms, include_documentation = _TT.unpack_from(reader.frame, reader.position)
        reader.position += 2
    else:
        (include_synonyms,) = _T.unpack_from(reader.frame, reader.position)
        reader.position += 1
    if version >= 4:
        reader.skip_tagged_fields()
    return DescribeConfigsRequest(resources, include_synonyms, include_documentation)


def _read_describe_configs_synonym(reader: Reader, version: int) -> DescribeConfigsSynonym:
    name = reader.string("name")
    value_ = reader.nullable_string("value")
    (source,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    if version >= 4:
        reader.skip_tagged_fields()
    return DescribeConfigsSynonym(name, value_, source)


def _read_describe_configs_resource_result(
    reader: Reader, version: int
) -> DescribeConfigsResourceResult:
    config_type: int = 0
    documentation: str | None = ""
    name = reader.string("name")
    value_ = reader.nullable_string("value")
    read_only, config_source, is_sensitive = _TBT.unpack_from(reader.frame, reader.position)
    reader.position += 3
    synonyms: list[DescribeConfigsSynonym] = []
    for _ in range(reader.count("synonyms", 4)):
        synonyms.append(_read_describe_configs_synonym(reader, version))
    if version >= 3:
        (config_type,) = _B.unpack_from(reader.frame, reader.position)
        reader.position += 1
        documentation = reader.nullable_string("documentation")
    if version >= 4:
        reader.skip_tagged_fields()
    return DescribeConfigsResourceResult(
        name, value_, read_only, config_source, is_sensitive, synonyms, config_type, documentation
    )


def _read_describe_configs_result(reader: Reader, version: int) -> DescribeConfigsResult:
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    (resource_type,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    resource_name = reader.string("resource_name")
    configs: list[DescribeConfigsResourceResult] = []
    for _ in range(reader.count("configs", 9)):
        configs.append(_read_describe_configs_resource_result(reader, version))
    if version >= 4:
        reader.skip_tagged_fields()
    return DescribeConfigsResult(error_code, error_message, resource_type, resource_name, configs)


def _read_describe_configs_response(reader: Reader, version: int) -> DescribeConfigsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    results: list[DescribeConfigsResult] = []
    for _ in range(reader.count("results", 7)):
        results.append(_read_describe_configs_result(reader, version))
    if version >= 4:
        reader.skip_tagged_fields()
    return DescribeConfigsResponse(throttle_time_ms, results)


def _write_describe_configs_synonym(
    out: Writer, data: DescribeConfigsSynonym, version: int
) -> None:
    out.string(data.name)
    out.nullable_string(data.value)
    out += _B.pack(data.source)
    if version >= 4:
        out.append(0)


def _write_describe_configs_resource_result(
    out: Writer, data: DescribeConfigsResourceResult, version: int
) -> None:
    out.string(data.name)
    out.nullable_string(data.value)
    out += _TBT.pack(data.read_only, data.config_source, data.is_sensitive)
    out.length(len(data.synonyms))
    for describe_configs_synonym in data.synonyms:
        _write_describe_configs_synonym(out, describe_configs_synonym, version)
    if version >= 3:
        out += _B.pack(data.config_type)
        out.nullable_string(data.documentation)
    if version >= 4:
        out.append(0)


def _write_describe_configs_result(out: Writer, data: DescribeConfigsResult, version: int) -> None:
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    out += _B.pack(data.resource_type)
    out.string(data.resource_name)
    out.length(len(data.configs))
    for describe_configs_resource_result in data.configs:
        _write_describe_configs_resource_result(out, describe_configs_resource_result, version)
    if version >= 4:
        out.append(0)


def _write_describe_configs_response(
    out: Writer, data: DescribeConfigsResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.results))
    for describe_configs_result in data.results:
        _write_describe_configs_result(out, describe_configs_result, version)
    if version >= 4:
        out.append(0)


def _error_response(request: DescribeConfigsRequest, code: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=code,
                error_message=None,
                resource_type=describe_configs_resource.resource_type,
                resource_name=describe_configs_resource.resource_name,
            )
            for describe_configs_resource in request.resources
        ]
    )


DESCRIBE_CONFIGS_MESSAGES = ApiMessages(
    key=32,
    name="DescribeConfigs",
    versions=(1, 4),
    flexible_since=4,
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
    read_request=_read_describe_configs_request,
    read_response=_read_describe_configs_response,
    write_response=_write_describe_configs_response,
    error_response=_error_response,
    fields={
        DescribeConfigsRequest: {"include_documentation": (3, 4)},
        DescribeConfigsResourceResult: {"config_type": (3, 4), "documentation": (3, 4)},
    },
)
