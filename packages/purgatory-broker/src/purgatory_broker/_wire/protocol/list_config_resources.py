"""The messages of ListConfigResources.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_B = struct.Struct(">b")
_IH = struct.Struct(">ih")


class ListConfigResourcesRequest(MessageStruct):
    """ListConfigResourcesRequest of Kafka."""

    __slots__ = ("resource_types",)
    resource_types: list[int]

    def __init__(self, resource_types: list[int] = NEW_LIST) -> None:
        self.resource_types = [] if resource_types is NEW_LIST else resource_types


class ConfigResource(MessageStruct):
    """ConfigResource of Kafka."""

    __slots__ = ("resource_name", "resource_type")
    resource_name: str
    resource_type: int

    def __init__(self, resource_name: str = "", resource_type: int = 16) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(MessageStruct):
    """ListConfigResourcesResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "config_resources")
    throttle_time_ms: int
    error_code: int
    config_resources: list[ConfigResource]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ConfigResource] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = [] if config_resources is NEW_LIST else config_resources


def _read_list_config_resources_request(reader: Reader, version: int) -> ListConfigResourcesRequest:
    resource_types: list[int] = []
    if version >= 1:
        resource_types = reader.numbers("resource_types", "b", 1)
    reader.skip_tagged_fields()
    return ListConfigResourcesRequest(resource_types)


def _read_config_resource(reader: Reader, version: int) -> ConfigResource:
    resource_type: int = 16
    resource_name = reader.string("resource_name")
    if version >= 1:
        (resource_type,) = _B.unpack_from(reader.frame, reader.position)
        reader.position += 1
    reader.skip_tagged_fields()
    return ConfigResource(resource_name, resource_type)


def _read_list_config_resources_response(
    reader: Reader, version: int
) -> ListConfigResourcesResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    config_resources: list[ConfigResource] = []
    for _ in range(reader.count("config_resources", 2)):
        config_resources.append(_read_config_resource(reader, version))
    reader.skip_tagged_fields()
    return ListConfigResourcesResponse(throttle_time_ms, error_code, config_resources)


def _write_config_resource(out: Writer, data: ConfigResource, version: int) -> None:
    out.string(data.resource_name)
    if version >= 1:
        out += _B.pack(data.resource_type)
    out.append(0)


def _write_list_config_resources_response(
    out: Writer, data: ListConfigResourcesResponse, version: int
) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.length(len(data.config_resources))
    for config_resource in data.config_resources:
        _write_config_resource(out, config_resource, version)
    out.append(0)


def _error_response(request: ListConfigResourcesRequest, code: int) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=code)


LIST_CONFIG_RESOURCES_MESSAGES = ApiMessages(
    key=74,
    name="ListConfigResources",
    versions=(0, 1),
    flexible_since=0,
    request=ListConfigResourcesRequest,
    response=ListConfigResourcesResponse,
    read_request=_read_list_config_resources_request,
    read_response=_read_list_config_resources_response,
    write_response=_write_list_config_resources_response,
    error_response=_error_response,
    fields={
        ListConfigResourcesRequest: {"resource_types": (1, 1)},
        ConfigResource: {"resource_type": (1, 1)},
    },
)
