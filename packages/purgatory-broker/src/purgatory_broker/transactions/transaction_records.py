"""The records of the topic `__transaction_state`, in Kafka's binary format.

A key has version 0 and the transactional id. A value has version 0 or, from `transaction.version` 1
on, version 1, whose tagged fields other versions of a broker skip. Kafka's tools can read them.

Source: Kafka's schemas TransactionLogKey and TransactionLogValue.
"""

from __future__ import annotations

import struct
from itertools import groupby

from purgatory_broker._wire.reader import FlexibleReader, Reader
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker._wire.writer import FlexibleWriter, Writer
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.transactions.transaction import (
    NO_PRODUCER_ID,
    STATES_BY_NUMBER,
    TransactionState,
    TransactionValue,
)
from request_purgatory.errors import PurgatoryError

_INT16 = struct.Struct(">h")
_INT64 = struct.Struct(">q")
#: The producer id and epoch, the timeout and the state.
_HEAD = struct.Struct(">qhib")
#: The times of the last update and of the start.
_TIMES = struct.Struct(">qq")
_KEY_VERSION = 0
_FLEXIBLE_SINCE = 1
#: The tagged fields.
_PREVIOUS_PRODUCER_ID, _NEXT_PRODUCER_ID, _CLIENT_VERSION = range(3)
_MAX_ID_BYTES = 0x7FFF


class TransactionRecordError(PurgatoryError, ValueError):
    """Bytes that are no record of this format, or an id that does not fit into one."""


def encode_key(transactional_id: str) -> bytes:
    raw = transactional_id.encode()
    if len(raw) > _MAX_ID_BYTES:
        raise TransactionRecordError(
            f"a transactional id may have {_MAX_ID_BYTES} bytes, got {len(raw)}"
        )
    return _INT16.pack(_KEY_VERSION) + _INT16.pack(len(raw)) + raw


def decode_key(raw: bytes) -> str | None:
    """Return the transactional id; None for a key of a later version."""
    try:
        reader = Reader(raw, 0)
        (version,) = reader.unpack(_INT16)
        return reader.string("transactional id") if version == _KEY_VERSION else None
    except (WireError, struct.error, ValueError) as error:
        raise TransactionRecordError(f"the key is invalid: {error}") from error


def encode_value(value: TransactionValue, transaction_version: int) -> bytes:
    is_flexible = transaction_version >= _FLEXIBLE_SINCE
    out = FlexibleWriter() if is_flexible else Writer()
    out += _INT16.pack(int(is_flexible))
    out += _HEAD.pack(
        value.producer_id,
        value.producer_epoch,
        value.timeout_ms,
        STATES_BY_NUMBER.index(value.state),
    )
    if value.state is TransactionState.EMPTY:
        _length(out, -1)
    else:
        topics = [
            (topic, [key.partition for key in keys])
            for topic, keys in groupby(sorted(value.partitions), lambda key: key.topic)
        ]
        _length(out, len(topics))
        for topic, indexes in topics:
            out.string(topic)
            out.numbers(indexes, "i")
            if is_flexible:
                out.tagged_fields([])
    out += _TIMES.pack(value.update_ms, value.start_ms)
    if is_flexible:
        out.tagged_fields(_tagged(value))
    return bytes(out)


def _length(out: Writer, length: int) -> None:
    if isinstance(out, FlexibleWriter) and length < 0:
        out.append(0)
    else:
        out.length(length)


def _tagged(value: TransactionValue) -> list[tuple[int, bytes | bytearray]]:
    """Return the tagged fields that differ from their defaults.

    Kafka 4.1 reads the producer ids and does not write them: a coordinator that takes over while
    a producer gets another id loses the new one.
    """
    fields: list[tuple[int, bytes | bytearray]] = []
    if value.previous_producer_id != NO_PRODUCER_ID:
        fields.append((_PREVIOUS_PRODUCER_ID, _INT64.pack(value.previous_producer_id)))
    if value.next_producer_id != NO_PRODUCER_ID:
        fields.append((_NEXT_PRODUCER_ID, _INT64.pack(value.next_producer_id)))
    if value.client_version:
        fields.append((_CLIENT_VERSION, _INT16.pack(value.client_version)))
    return fields


def decode_value(raw: bytes) -> TransactionValue:
    try:
        return _decode_value(raw)
    except (WireError, struct.error, IndexError, ValueError) as error:
        raise TransactionRecordError(f"the value is invalid: {error}") from error


def _decode_value(raw: bytes) -> TransactionValue:
    (version,) = _INT16.unpack_from(raw)
    if version not in (0, _FLEXIBLE_SINCE):
        raise WireError(f"its version must be 0 or {_FLEXIBLE_SINCE}, got {version}")
    is_flexible = version >= _FLEXIBLE_SINCE
    reader = FlexibleReader(raw, 2) if is_flexible else Reader(raw, 2)
    producer_id, epoch, timeout_ms, number = reader.unpack(_HEAD)
    if not 0 <= number < len(STATES_BY_NUMBER):
        raise WireError(f"its state must be between 0 and {len(STATES_BY_NUMBER) - 1}")
    partitions: list[TopicPartition] = []
    for _ in range(max(0, reader.nullable_count("partitions", 3))):
        topic = reader.string("topic")
        partitions += [TopicPartition(topic, index) for index in reader.numbers("ids", "i", 4)]
        if is_flexible:
            reader.skip_tagged_fields()
    update_ms, start_ms = reader.unpack(_TIMES)
    ids = {_PREVIOUS_PRODUCER_ID: NO_PRODUCER_ID, _NEXT_PRODUCER_ID: NO_PRODUCER_ID}
    client_version = 0
    for _ in range(reader.tagged_fields() if is_flexible else 0):
        tag = reader.tag()
        if tag in ids:
            (ids[tag],) = reader.unpack(_INT64)
        elif tag == _CLIENT_VERSION:
            (client_version,) = reader.unpack(_INT16)
        else:
            reader.skip_value()
    return TransactionValue(
        producer_id=producer_id,
        previous_producer_id=ids[_PREVIOUS_PRODUCER_ID],
        next_producer_id=ids[_NEXT_PRODUCER_ID],
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=STATES_BY_NUMBER[number],
        partitions=frozenset(partitions),
        start_ms=start_ms,
        update_ms=update_ms,
        client_version=client_version,
    )
