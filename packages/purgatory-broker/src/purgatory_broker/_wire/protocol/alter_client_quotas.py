"""The messages of AlterClientQuotas.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_T = struct.Struct(">?")
_DT = struct.Struct(">d?")
_H = struct.Struct(">h")
_I = struct.Struct(">i")


class EntityData(MessageStruct):
    """EntityData of Kafka."""

    __slots__ = ("entity_type", "entity_name")
    entity_type: str
    entity_name: str | None

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class OpData(MessageStruct):
    """OpData of Kafka."""

    __slots__ = ("key", "value", "remove")
    key: str
    value: float
    remove: bool

    def __init__(self, key: str = "", value: float = 0.0, remove: bool = False) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class RequestEntryData(MessageStruct):
    """RequestEntryData of Kafka."""

    __slots__ = ("entity", "ops")
    entity: list[EntityData]
    ops: list[OpData]

    def __init__(self, entity: list[EntityData] = NEW_LIST, ops: list[OpData] = NEW_LIST) -> None:
        self.entity = [] if entity is NEW_LIST else entity
        self.ops = [] if ops is NEW_LIST else ops


class AlterClientQuotasRequest(MessageStruct):
    """AlterClientQuotasRequest of Kafka."""

    __slots__ = ("entries", "validate_only")
    entries: list[RequestEntryData]
    validate_only: bool

    def __init__(
        self, entries: list[RequestEntryData] = NEW_LIST, validate_only: bool = False
    ) -> None:
        self.entries = [] if entries is NEW_LIST else entries
        self.validate_only = validate_only


class ResponseEntryData(MessageStruct):
    """ResponseEntryData of Kafka."""

    __slots__ = ("error_code", "error_message", "entity")
    error_code: int
    error_message: str | None
    entity: list[EntityData]

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[EntityData] = NEW_LIST,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = [] if entity is NEW_LIST else entity


class AlterClientQuotasResponse(MessageStruct):
    """AlterClientQuotasResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "entries")
    throttle_time_ms: int
    entries: list[ResponseEntryData]

    def __init__(
        self, throttle_time_ms: int = 0, entries: list[ResponseEntryData] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is NEW_LIST else entries


def _read_entity_data(reader: Reader, version: int) -> EntityData:
    entity_type = reader.string("entity_type")
    entity_name = reader.nullable_string("entity_name")
    if version >= 1:
        reader.skip_tagged_fields()
    return EntityData(entity_type, entity_name)


def _read_op_data(reader: Reader, version: int) -> OpData:
    key = reader.string("key")
    value_, remove = _DT.unpack_from(reader.frame, reader.position)
    reader.position += 9
    if version >= 1:
        reader.skip_tagged_fields()
    return OpData(key, value_, remove)


def _read_request_entry_data(reader: Reader, version: int) -> RequestEntryData:
    entity: list[EntityData] = []
    for _ in range(reader.count("entity", 3)):
        entity.append(_read_entity_data(reader, version))
    ops: list[OpData] = []
    for _ in range(reader.count("ops", 11)):
        ops.append(_read_op_data(reader, version))
    if version >= 1:
        reader.skip_tagged_fields()
    return RequestEntryData(entity, ops)


def _read_alter_client_quotas_request(reader: Reader, version: int) -> AlterClientQuotasRequest:
    entries: list[RequestEntryData] = []
    for _ in range(reader.count("entries", 3)):
        entries.append(_read_request_entry_data(reader, version))
    (validate_only,) = _T.unpack_from(reader.frame, reader.position)
    reader.position += 1
    if version >= 1:
        reader.skip_tagged_fields()
    return AlterClientQuotasRequest(entries, validate_only)


def _read_response_entry_data(reader: Reader, version: int) -> ResponseEntryData:
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    entity: list[EntityData] = []
    for _ in range(reader.count("entity", 3)):
        entity.append(_read_entity_data(reader, version))
    if version >= 1:
        reader.skip_tagged_fields()
    return ResponseEntryData(error_code, error_message, entity)


def _read_alter_client_quotas_response(reader: Reader, version: int) -> AlterClientQuotasResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    entries: list[ResponseEntryData] = []
    for _ in range(reader.count("entries", 5)):
        entries.append(_read_response_entry_data(reader, version))
    if version >= 1:
        reader.skip_tagged_fields()
    return AlterClientQuotasResponse(throttle_time_ms, entries)


def _write_entity_data(out: Writer, data: EntityData, version: int) -> None:
    out.string(data.entity_type)
    out.nullable_string(data.entity_name)
    if version >= 1:
        out.append(0)


def _write_response_entry_data(out: Writer, data: ResponseEntryData, version: int) -> None:
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    out.length(len(data.entity))
    for entity_data in data.entity:
        _write_entity_data(out, entity_data, version)
    if version >= 1:
        out.append(0)


def _write_alter_client_quotas_response(
    out: Writer, data: AlterClientQuotasResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.entries))
    for response_entry_data in data.entries:
        _write_response_entry_data(out, response_entry_data, version)
    if version >= 1:
        out.append(0)


def _error_response(request: AlterClientQuotasRequest, code: int) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=code,
                error_message=None,
                entity=[
                    EntityData(
                        entity_type=entity_data.entity_type, entity_name=entity_data.entity_name
                    )
                    for entity_data in request_entry_data.entity
                ],
            )
            for request_entry_data in request.entries
        ]
    )


ALTER_CLIENT_QUOTAS_MESSAGES = ApiMessages(
    key=49,
    name="AlterClientQuotas",
    versions=(0, 1),
    flexible_since=1,
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
    read_request=_read_alter_client_quotas_request,
    read_response=_read_alter_client_quotas_response,
    write_response=_write_alter_client_quotas_response,
    error_response=_error_response,
    fields={},
)
