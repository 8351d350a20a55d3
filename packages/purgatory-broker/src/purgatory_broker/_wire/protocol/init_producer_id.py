"""The messages of InitProducerId.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IHQH = struct.Struct(">ihqh")
_IHQHQH = struct.Struct(">ihqhqh")
_IQH = struct.Struct(">iqh")
_IQHTT = struct.Struct(">iqh??")


class InitProducerIdRequest(MessageStruct):
    """InitProducerIdRequest of Kafka."""

    __slots__ = (
        "transactional_id",
        "transaction_timeout_ms",
        "producer_id",
        "producer_epoch",
        "enable2_pc",
        "keep_prepared_txn",
    )
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int
    enable2_pc: bool
    keep_prepared_txn: bool

    def __init__(
        self,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn


class InitProducerIdResponse(MessageStruct):
    """InitProducerIdResponse of Kafka."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id",
        "producer_epoch",
        "ongoing_txn_producer_id",
        "ongoing_txn_producer_epoch",
    )
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    ongoing_txn_producer_id: int
    ongoing_txn_producer_epoch: int

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch


def _read_init_producer_id_request(reader: Reader, version: int) -> InitProducerIdRequest:
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False
    transactional_id = reader.nullable_string("transactional_id")
    if version >= 6:
        transaction_timeout_ms, producer_id, producer_epoch, enable2_pc, keep_prepared_txn = (
            _IQHTT.unpack_from(reader.frame, reader.position)
        )
        reader.position += 16
    elif version >= 3:
        transaction_timeout_ms, producer_id, producer_epoch = _IQH.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 14
    else:
        (transaction_timeout_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    if version >= 2:
        reader.skip_tagged_fields()
    return InitProducerIdRequest(
        transactional_id,
        transaction_timeout_ms,
        producer_id,
        producer_epoch,
        enable2_pc,
        keep_prepared_txn,
    )


def _read_init_producer_id_response(reader: Reader, version: int) -> InitProducerIdResponse:
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1
    if version >= 6:
        (
            throttle_time_ms,
            error_code,
            producer_id,
            producer_epoch,
            ongoing_txn_producer_id,
            ongoing_txn_producer_epoch,
        ) = _IHQHQH.unpack_from(reader.frame, reader.position)
        reader.position += 26
    else:
        throttle_time_ms, error_code, producer_id, producer_epoch = _IHQH.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 16
    if version >= 2:
        reader.skip_tagged_fields()
    return InitProducerIdResponse(
        throttle_time_ms,
        error_code,
        producer_id,
        producer_epoch,
        ongoing_txn_producer_id,
        ongoing_txn_producer_epoch,
    )


def _write_init_producer_id_response(
    out: Writer, data: InitProducerIdResponse, version: int
) -> None:
    if version >= 6:
        out += _IHQHQH.pack(
            data.throttle_time_ms,
            data.error_code,
            data.producer_id,
            data.producer_epoch,
            data.ongoing_txn_producer_id,
            data.ongoing_txn_producer_epoch,
        )
    else:
        out += _IHQH.pack(
            data.throttle_time_ms, data.error_code, data.producer_id, data.producer_epoch
        )
    if version >= 2:
        out.append(0)


def _error_response(request: InitProducerIdRequest, code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


def _transactional_ids(request: InitProducerIdRequest) -> Iterable[str]:
    return [request.transactional_id] if request.transactional_id else []


INIT_PRODUCER_ID_MESSAGES = ApiMessages(
    key=22,
    name="InitProducerId",
    versions=(0, 6),
    flexible_since=2,
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    read_request=_read_init_producer_id_request,
    read_response=_read_init_producer_id_response,
    write_response=_write_init_producer_id_response,
    error_response=_error_response,
    fields={
        InitProducerIdRequest: {
            "producer_id": (3, 6),
            "producer_epoch": (3, 6),
            "enable2_pc": (6, 6),
            "keep_prepared_txn": (6, 6),
        },
        InitProducerIdResponse: {
            "ongoing_txn_producer_id": (6, 6),
            "ongoing_txn_producer_epoch": (6, 6),
        },
    },
    transactional_ids=_transactional_ids,
)
