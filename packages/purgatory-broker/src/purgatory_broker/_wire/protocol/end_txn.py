"""The messages of EndTxn.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_IH = struct.Struct(">ih")
_IHQH = struct.Struct(">ihqh")
_QHT = struct.Struct(">qh?")


class EndTxnRequest(MessageStruct):
    """EndTxnRequest of Kafka."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed")
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class EndTxnResponse(MessageStruct):
    """EndTxnResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch


def _read_end_txn_request(reader: Reader, version: int) -> EndTxnRequest:
    transactional_id = reader.string("transactional_id")
    producer_id, producer_epoch, committed = _QHT.unpack_from(reader.frame, reader.position)
    reader.position += 11
    if version >= 3:
        reader.skip_tagged_fields()
    return EndTxnRequest(transactional_id, producer_id, producer_epoch, committed)


def _read_end_txn_response(reader: Reader, version: int) -> EndTxnResponse:
    producer_id: int = -1
    producer_epoch: int = -1
    if version >= 5:
        throttle_time_ms, error_code, producer_id, producer_epoch = _IHQH.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 16
    else:
        throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
        reader.position += 6
    if version >= 3:
        reader.skip_tagged_fields()
    return EndTxnResponse(throttle_time_ms, error_code, producer_id, producer_epoch)


def _write_end_txn_response(out: Writer, data: EndTxnResponse, version: int) -> None:
    if version >= 5:
        out += _IHQH.pack(
            data.throttle_time_ms, data.error_code, data.producer_id, data.producer_epoch
        )
    else:
        out += _IH.pack(data.throttle_time_ms, data.error_code)
    if version >= 3:
        out.append(0)


def _error_response(request: EndTxnRequest, code: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)


def _transactional_ids(request: EndTxnRequest) -> Iterable[str]:
    return [request.transactional_id]


END_TXN_MESSAGES = ApiMessages(
    key=26,
    name="EndTxn",
    versions=(0, 5),
    flexible_since=3,
    request=EndTxnRequest,
    response=EndTxnResponse,
    read_request=_read_end_txn_request,
    read_response=_read_end_txn_response,
    write_response=_write_end_txn_response,
    error_response=_error_response,
    fields={EndTxnResponse: {"producer_id": (5, 5), "producer_epoch": (5, 5)}},
    transactional_ids=_transactional_ids,
)
