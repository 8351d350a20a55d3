"""The messages of AddOffsetsToTxn.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_IH = struct.Struct(">ih")
_QH = struct.Struct(">qh")


class AddOffsetsToTxnRequest(MessageStruct):
    """AddOffsetsToTxnRequest of Kafka."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id")
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class AddOffsetsToTxnResponse(MessageStruct):
    """AddOffsetsToTxnResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code")
    throttle_time_ms: int
    error_code: int

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


def _read_add_offsets_to_txn_request(reader: Reader, version: int) -> AddOffsetsToTxnRequest:
    transactional_id = reader.string("transactional_id")
    producer_id, producer_epoch = _QH.unpack_from(reader.frame, reader.position)
    reader.position += 10
    group_id = reader.string("group_id")
    if version >= 3:
        reader.skip_tagged_fields()
    return AddOffsetsToTxnRequest(transactional_id, producer_id, producer_epoch, group_id)


def _read_add_offsets_to_txn_response(reader: Reader, version: int) -> AddOffsetsToTxnResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    if version >= 3:
        reader.skip_tagged_fields()
    return AddOffsetsToTxnResponse(throttle_time_ms, error_code)


def _write_add_offsets_to_txn_response(
    out: Writer, data: AddOffsetsToTxnResponse, version: int
) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    if version >= 3:
        out.append(0)


def _error_response(request: AddOffsetsToTxnRequest, code: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code)


def _groups(request: AddOffsetsToTxnRequest) -> Iterable[str]:
    return [request.group_id]


def _transactional_ids(request: AddOffsetsToTxnRequest) -> Iterable[str]:
    return [request.transactional_id]


ADD_OFFSETS_TO_TXN_MESSAGES = ApiMessages(
    key=25,
    name="AddOffsetsToTxn",
    versions=(0, 4),
    flexible_since=3,
    request=AddOffsetsToTxnRequest,
    response=AddOffsetsToTxnResponse,
    read_request=_read_add_offsets_to_txn_request,
    read_response=_read_add_offsets_to_txn_response,
    write_response=_write_add_offsets_to_txn_response,
    error_response=_error_response,
    fields={},
    groups=_groups,
    transactional_ids=_transactional_ids,
)
