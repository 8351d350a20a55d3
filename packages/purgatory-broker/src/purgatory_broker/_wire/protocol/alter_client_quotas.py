"""The messages of AlterClientQuotas.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_T = struct.Struct(">?")
_DT = struct.Struct(">d?")
_H = struct.Struct(">h")
_I = struct.Struct(">i")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class EntityData(MessageStruct):
    """EntityData of Kafka."""

    entity_type: str = ""
    entity_name: str | None = ""


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class OpData(MessageStruct):
    """OpData of Kafka."""

    key: str = ""
    value: float = 0.0
    remove: bool = False


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class RequestEntryData(MessageStruct):
    """RequestEntryData of Kafka."""

    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class AlterClientQuotasRequest(MessageStruct):
    """AlterClientQuotasRequest of Kafka."""

    entries: list[RequestEntryData] = field(default_factory=list)
    validate_only: bool = False


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ResponseEntryData(MessageStruct):
    """ResponseEntryData of Kafka."""

    error_code: int = 0
    error_message: str | None = ""
    entity: list[EntityData] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class AlterClientQuotasResponse(MessageStruct):
    """AlterClientQuotasResponse of Kafka."""

    throttle_time_ms: int = 0
    entries: list[ResponseEntryData] = field(default_factory=list)


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
