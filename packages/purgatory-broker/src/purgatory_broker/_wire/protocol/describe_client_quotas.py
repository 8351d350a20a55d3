"""The messages of DescribeClientQuotas.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_T = struct.Struct(">?")
_B = struct.Struct(">b")
_D = struct.Struct(">d")
_IH = struct.Struct(">ih")


class ComponentData(MessageStruct):
    """ComponentData of Kafka."""

    __slots__ = ("entity_type", "match_type", "match")
    entity_type: str
    match_type: int
    match: str | None

    def __init__(self, entity_type: str = "", match_type: int = 0, match: str | None = "") -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(MessageStruct):
    """DescribeClientQuotasRequest of Kafka."""

    __slots__ = ("components", "strict")
    components: list[ComponentData]
    strict: bool

    def __init__(self, components: list[ComponentData] = NEW_LIST, strict: bool = False) -> None:
        self.components = [] if components is NEW_LIST else components
        self.strict = strict


class EntityData(MessageStruct):
    """EntityData of Kafka."""

    __slots__ = ("entity_type", "entity_name")
    entity_type: str
    entity_name: str | None

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(MessageStruct):
    """ValueData of Kafka."""

    __slots__ = ("key", "value")
    key: str
    value: float

    def __init__(self, key: str = "", value: float = 0.0) -> None:
        self.key = key
        self.value = value


class EntryData(MessageStruct):
    """EntryData of Kafka."""

    __slots__ = ("entity", "values")
    entity: list[EntityData]
    values: list[ValueData]

    def __init__(
        self, entity: list[EntityData] = NEW_LIST, values: list[ValueData] = NEW_LIST
    ) -> None:
        self.entity = [] if entity is NEW_LIST else entity
        self.values = [] if values is NEW_LIST else values


class DescribeClientQuotasResponse(MessageStruct):
    """DescribeClientQuotasResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    entries: list[EntryData] | None

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[EntryData] | None = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = [] if entries is NEW_LIST else entries


def _read_component_data(reader: Reader, version: int) -> ComponentData:
    entity_type = reader.string("entity_type")
    (match_type,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    match = reader.nullable_string("match")
    if version >= 1:
        reader.skip_tagged_fields()
    return ComponentData(entity_type, match_type, match)


def _read_describe_client_quotas_request(
    reader: Reader, version: int
) -> DescribeClientQuotasRequest:
    components: list[ComponentData] = []
    for _ in range(reader.count("components", 4)):
        components.append(_read_component_data(reader, version))
    (strict,) = _T.unpack_from(reader.frame, reader.position)
    reader.position += 1
    if version >= 1:
        reader.skip_tagged_fields()
    return DescribeClientQuotasRequest(components, strict)


def _read_entity_data(reader: Reader, version: int) -> EntityData:
    entity_type = reader.string("entity_type")
    entity_name = reader.nullable_string("entity_name")
    if version >= 1:
        reader.skip_tagged_fields()
    return EntityData(entity_type, entity_name)


def _read_value_data(reader: Reader, version: int) -> ValueData:
    key = reader.string("key")
    (value_,) = _D.unpack_from(reader.frame, reader.position)
    reader.position += 8
    if version >= 1:
        reader.skip_tagged_fields()
    return ValueData(key, value_)


def _read_entry_data(reader: Reader, version: int) -> EntryData:
    entity: list[EntityData] = []
    for _ in range(reader.count("entity", 3)):
        entity.append(_read_entity_data(reader, version))
    values: list[ValueData] = []
    for _ in range(reader.count("values", 10)):
        values.append(_read_value_data(reader, version))
    if version >= 1:
        reader.skip_tagged_fields()
    return EntryData(entity, values)


def _read_describe_client_quotas_response(
    reader: Reader, version: int
) -> DescribeClientQuotasResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    entries = (
        None
        if (count := reader.nullable_count("entries", 3)) < 0
        else [_read_entry_data(reader, version) for _ in range(count)]
    )
    if version >= 1:
        reader.skip_tagged_fields()
    return DescribeClientQuotasResponse(throttle_time_ms, error_code, error_message, entries)


def _write_entity_data(out: Writer, data: EntityData, version: int) -> None:
    out.string(data.entity_type)
    out.nullable_string(data.entity_name)
    if version >= 1:
        out.append(0)


def _write_value_data(out: Writer, data: ValueData, version: int) -> None:
    out.string(data.key)
    out += _D.pack(data.value)
    if version >= 1:
        out.append(0)


def _write_entry_data(out: Writer, data: EntryData, version: int) -> None:
    out.length(len(data.entity))
    for entity_data in data.entity:
        _write_entity_data(out, entity_data, version)
    out.length(len(data.values))
    for value_data in data.values:
        _write_value_data(out, value_data, version)
    if version >= 1:
        out.append(0)


def _write_describe_client_quotas_response(
    out: Writer, data: DescribeClientQuotasResponse, version: int
) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.nullable_string(data.error_message)
    if data.entries is None:
        out.length(-1)
    else:
        out.length(len(data.entries))
        for entry_data in data.entries:
            _write_entry_data(out, entry_data, version)
    if version >= 1:
        out.append(0)


def _error_response(
    request: DescribeClientQuotasRequest, code: int
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=None, entries=None)


DESCRIBE_CLIENT_QUOTAS_MESSAGES = ApiMessages(
    key=48,
    name="DescribeClientQuotas",
    versions=(0, 1),
    flexible_since=1,
    request=DescribeClientQuotasRequest,
    response=DescribeClientQuotasResponse,
    read_request=_read_describe_client_quotas_request,
    read_response=_read_describe_client_quotas_response,
    write_response=_write_describe_client_quotas_response,
    error_response=_error_response,
    fields={},
)
