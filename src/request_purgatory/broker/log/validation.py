"""What a leader looks at before it takes a client's records, in the order of Kafka's log.

Where Kafka would make a batch anew - compressed records whose offsets are not 0, 1, 2, ... - this
refuses it, and refuses the same of records that are not compressed, whose consumers would get two
records of one offset.
"""

from __future__ import annotations

from typing import NamedTuple

from request_purgatory.broker.log.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    UNSET,
    BatchHeader,
    Buffer,
    read_header,
    retimed,
    split,
    verify,
)
from request_purgatory.broker.log.codec import NAMES
from request_purgatory.broker.log.errors import NoBatchError, RecordError
from request_purgatory.broker.log.record import body, layouts
from request_purgatory.broker.log.settings import LogSettings
from request_purgatory.broker.wire.error_code import ErrorCode

#: How many of the records at fault an error names, as Kafka's does.
_FAULTS_TOLD = 3

#: In one batch. Kafka has no such limit; here looking at each takes two microseconds, in which
#: nobody is served.
MAX_RECORDS = 200_000

#: What stays of the attributes where a batch is made anew.
_KEPT = CODEC_MASK | TRANSACTIONAL | CONTROL


class Accepted(NamedTuple):
    """A batch that may be appended.

    Its header as it came, its bytes, and its max timestamp as it is to be stored.
    """

    header: BatchHeader
    batch: Buffer
    max_timestamp: int


def accepted(
    records: Buffer, settings: LogSettings, now_ms: int, *, internal: bool = False
) -> Accepted:
    """The one batch of `records`, which may be followed by the torn beginning of another, which is left out.

    Args:
        now_ms: whole milliseconds since 1970, which timestamps are compared with, and LogAppendTime
            sets.
        internal: the broker's own records, which may be markers.

    Raises:
        RecordError: what Kafka answers.
    """
    header, batch = _only_batch(records)
    if header.attributes & TRANSACTIONAL and not internal:
        # Kafka's answer where the request names no transactional id; with one there would have to
        # be transactions.
        raise RecordError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            f"producer {header.producer_id} has no transaction: there are none",
        )
    if header.base_offset != 0 and not internal:
        raise _invalid(f"the base offset of a client's batch is 0, got {header.base_offset}")
    if len(batch) > settings.max_message_bytes:
        raise RecordError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {len(batch)} bytes exceeds max.message.bytes={settings.max_message_bytes}",
        )
    verify(header, batch)
    attributes = header.attributes
    if attributes & CODEC_MASK >= len(NAMES):
        raise RecordError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no codec {attributes & CODEC_MASK}"
        )
    if not internal:
        _check_header(header)
    latest = _check_records(header, batch, settings, now_ms)
    if settings.log_append_time:
        latest = now_ms
        batch = retimed(batch, attributes & _KEPT | LOG_APPEND_TIME, latest)
    elif latest != header.max_timestamp or attributes & LOG_APPEND_TIME:
        batch = retimed(batch, attributes & _KEPT, latest)
    return Accepted(header, batch, latest)


def _only_batch(records: Buffer) -> tuple[BatchHeader, Buffer]:
    if len(records) >= HEADER_BYTES:
        header = read_header(records)
        if header.size == len(records):  # As it should be.
            return header, records
    batches = split(records, torn_tail=True)
    first = next(batches, None)
    if first is None:
        message = (
            f"a partition's records have at least one batch, got {len(records)} bytes without one"
        )
        raise NoBatchError(ErrorCode.INVALID_RECORD, message)
    if next(batches, None) is not None:
        raise NoBatchError(
            ErrorCode.INVALID_RECORD, "a partition's records have exactly one batch, got more"
        )
    return first


def _check_header(header: BatchHeader) -> None:
    count = header.last_offset_delta + 1
    if count <= 0:
        raise _invalid(f"the last offset delta is at least 0, got {header.last_offset_delta}")
    if header.record_count <= 0:
        raise _invalid(f"the record count is at least 1, got {header.record_count}")
    if count != header.record_count:
        raise _invalid(
            f"{header.record_count} records do not have offsets 0 to {header.last_offset_delta}"
        )
    if header.attributes & CONTROL:
        raise _invalid("clients do not write control records")
    if header.producer_id > UNSET and header.base_sequence < 0:
        raise _invalid(
            f"producer {header.producer_id} has a sequence of at least 0, got {header.base_sequence}"
        )


def _check_records(header: BatchHeader, batch: Buffer, settings: LogSettings, now_ms: int) -> int:
    """Look at each record.

    The latest timestamp, or what the batch says of it if it can't be unpacked.
    """
    if header.record_count > MAX_RECORDS:
        raise _invalid(f"{header.record_count} records in a batch, where {MAX_RECORDS} may be")
    records = body(header, batch)
    if records is None:
        return header.max_timestamp
    found = layouts(records, header.record_count)
    offset_deltas = [each[1] for each in found]
    if offset_deltas != list(range(len(found))):
        raise _invalid(
            f"the records of a batch have offset deltas 0, 1, 2, ..., got {offset_deltas[:1000]}"
        )
    if settings.compacted and any(each[3] < 0 for each in found):
        raise _rejected(
            ErrorCode.INVALID_RECORD,
            [
                (index, "Compacted topic cannot accept message without key")
                for index, each in enumerate(found)
                if each[3] < 0
            ],
        )
    if header.attributes & LOG_APPEND_TIME:
        if settings.log_append_time or header.max_timestamp == UNSET:
            raise _rejected(
                ErrorCode.INVALID_TIMESTAMP,
                [(0, "Producer should not set timestamp type to LogAppendTime.")],
            )
        earliest = latest = header.max_timestamp
    else:
        deltas = [each[0] for each in found]
        earliest = header.base_timestamp + min(deltas, default=0)
        latest = max(header.base_timestamp + max(deltas, default=0), UNSET)
    if not settings.log_append_time:
        before, after = (
            settings.message_timestamp_before_max_ms,
            settings.message_timestamp_after_max_ms,
        )
        least = -(2**63) if before is None else now_ms - before
        most = 2**63 - 1 if after is None else now_ms + after
        if earliest < least or latest > most:
            _check_timestamps(
                header, [header.base_timestamp + each[0] for each in found], least, most
            )
    return latest


def _check_timestamps(header: BatchHeader, timestamps: list[int], least: int, most: int) -> None:
    if header.has_log_append_time:
        timestamps = [header.max_timestamp] * len(timestamps)
    faults = [
        (index, f"Timestamp {timestamp} is out of range: from {least} to {most}")
        for index, timestamp in enumerate(timestamps)
        if timestamp != UNSET and not least <= timestamp <= most
    ]
    if faults:
        raise _rejected(ErrorCode.INVALID_TIMESTAMP, faults)


def _rejected(code: ErrorCode, faults: list[tuple[int, str]]) -> RecordError:
    return RecordError(
        code,
        f"{len(faults)} records have been rejected: {faults[0][1]}",
        tuple(faults[:_FAULTS_TOLD]),
    )


def _invalid(message: str) -> RecordError:
    return RecordError(ErrorCode.INVALID_RECORD, message)
