"""Validates batches before they are appended: a client's by the leader, a leader's by a follower.

The checks and their order are those of Kafka's `UnifiedLog` and `LogValidator`.

Kafka rewrites a compressed batch whose offset deltas are not 0, 1, 2, ... This module refuses such
a batch, and also an uncompressed one: its consumers would get two records with one offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LENGTH_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    UNSET,
    BatchHeader,
    Buffer,
    read_header,
    split_batches,
    verify_checksum,
    with_max_timestamp,
)
from purgatory_broker.log.compression import CODEC_NAMES
from purgatory_broker.log.log_errors import BatchFormatError, RecordError
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.record import RecordLayout, decompress_records, record_layouts

#: The most records in a batch. Kafka has no such limit. Here validation takes two microseconds for
#: each record, during which no other request is handled.
MAX_RECORDS = 200_000

#: The attributes that are kept in a batch that is rewritten.
_KEPT_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL | CONTROL


def validate_batch(
    records: Buffer, settings: LogSettings, now_ms: int, *, internal: bool = False
) -> tuple[BatchHeader, Buffer, int]:
    """Validate the one batch of a client's records, with the timestamps that settings require.

    Returns the header as the client sent it, the bytes to append, and their max timestamp.
    An incomplete second batch after it is ignored, as in Kafka. `internal` records are the broker's
    own, and may be control records.
    """
    header, batch = _only_batch(records)
    if header.base_offset != 0 and not internal:
        raise RecordError(
            ErrorCode.INVALID_RECORD,
            f"the base offset of a client's batch must be 0, got {header.base_offset}",
        )
    if len(batch) > settings.max_message_bytes:
        raise RecordError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {len(batch)} bytes exceeds max.message.bytes={settings.max_message_bytes}",
        )
    verify_checksum(header, batch)
    if header.attributes & CODEC_MASK >= len(CODEC_NAMES):
        raise RecordError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown codec {header.codec}")
    error = None if internal else _header_error(header)
    if error is not None:
        raise RecordError(ErrorCode.INVALID_RECORD, error)
    latest = _check_records(header, batch, settings, now_ms)
    kept = header.attributes & _KEPT_ATTRIBUTES
    if settings.log_append_time:
        latest = now_ms
        batch = with_max_timestamp(batch, kept | LOG_APPEND_TIME, latest)
    elif latest != header.max_timestamp or header.attributes & LOG_APPEND_TIME:
        batch = with_max_timestamp(batch, kept, latest)
    return header, batch, latest


def _only_batch(records: Buffer) -> tuple[BatchHeader, Buffer]:
    if len(records) >= HEADER_BYTES:
        header = read_header(records)
        if header.length + LENGTH_BYTES == len(records):  # The normal case.
            return header, records
    batches = split_batches(records, torn_tail=True)
    first = next(batches, None)
    if first is None:
        raise BatchFormatError(
            ErrorCode.INVALID_RECORD,
            f"a partition's records must be one batch, got {len(records)} bytes without a batch",
        )
    if next(batches, None) is not None:
        raise BatchFormatError(
            ErrorCode.INVALID_RECORD, "a partition's records must be one batch, got several"
        )
    return first


def _header_error(header: BatchHeader) -> str | None:
    count = header.last_offset_delta + 1
    if count <= 0:
        return f"the last offset delta must be at least 0, got {header.last_offset_delta}"
    if header.record_count <= 0:
        return f"the record count must be at least 1, got {header.record_count}"
    if count != header.record_count:
        return f"{header.record_count} records can't have offsets 0 to {header.last_offset_delta}"
    if header.attributes & CONTROL:
        return "clients must not write control records"
    if header.producer_id > UNSET and header.base_sequence < 0:
        return (
            f"a batch of producer {header.producer_id} must have a sequence of at least 0, "
            f"got {header.base_sequence}"
        )
    return None


def _check_records(header: BatchHeader, batch: Buffer, settings: LogSettings, now_ms: int) -> int:
    """Return the latest timestamp: the header's if the records can't be decompressed."""
    if header.record_count > MAX_RECORDS:
        raise RecordError(
            ErrorCode.INVALID_RECORD,
            f"a batch of {header.record_count} records exceeds the limit of {MAX_RECORDS}",
        )
    if header.attributes & CODEC_MASK:
        records = decompress_records(header, batch)
        if records is None:
            return header.max_timestamp
        layouts = record_layouts(records, header.record_count)
    else:
        layouts = record_layouts(batch, header.record_count, HEADER_BYTES)
    has_log_append_time = header.attributes & LOG_APPEND_TIME
    if len(layouts) == 1:  # Without the lists.
        earliest_delta = latest_delta = layouts[0][0]
        are_consecutive = layouts[0][1] == 0
    else:
        deltas = [layout[0] for layout in layouts]
        earliest_delta, latest_delta = min(deltas, default=0), max(deltas, default=0)
        are_consecutive = [layout[1] for layout in layouts] == list(range(len(layouts)))
    if not are_consecutive:
        offset_deltas = [layout[1] for layout in layouts[:1_000]]
        raise RecordError(
            ErrorCode.INVALID_RECORD,
            f"the offset deltas of a batch must be 0, 1, 2, ..., got {offset_deltas}",
        )
    if has_log_append_time:
        earliest = latest = header.max_timestamp
    else:
        earliest = header.base_timestamp + earliest_delta
        latest = header.base_timestamp + latest_delta
        if latest < UNSET:
            latest = UNSET
    lowest, highest = -(2**63), 2**63 - 1
    if not settings.log_append_time:
        if settings.message_timestamp_before_max_ms is not None:
            lowest = now_ms - settings.message_timestamp_before_max_ms
        if settings.message_timestamp_after_max_ms is not None:
            highest = now_ms + settings.message_timestamp_after_max_ms
    # The common case without a look at each record.
    if (
        has_log_append_time
        or not lowest <= earliest <= latest <= highest
        or (settings.compacted and any(layout[3] < 0 for layout in layouts))
    ):
        record_errors = list(_record_errors(header, layouts, settings, lowest, highest))
        if record_errors:
            _reject(record_errors)
    return latest


def _record_errors(
    header: BatchHeader,
    layouts: list[RecordLayout],
    settings: LogSettings,
    lowest: int,
    highest: int,
) -> Iterator[tuple[ErrorCode, int, str]]:
    """Find the invalid records of a batch; the error of each is the first that Kafka finds."""
    # Producers must not set the type. With CreateTime, Kafka checks a timestamp that is set.
    has_invalid_type = header.has_log_append_time and (
        settings.log_append_time or header.max_timestamp == UNSET
    )
    for index, (delta, _, _, key_size, _, _) in enumerate(layouts):
        timestamp = header.timestamp(delta)
        if settings.compacted and key_size < 0:
            yield (
                ErrorCode.INVALID_RECORD,
                index,
                "Compacted topic cannot accept message without key",
            )
        elif has_invalid_type:
            yield (
                ErrorCode.INVALID_TIMESTAMP,
                index,
                "Producer should not set timestamp type to LogAppendTime.",
            )
        elif timestamp != UNSET and not lowest <= timestamp <= highest:
            yield (
                ErrorCode.INVALID_TIMESTAMP,
                index,
                f"Timestamp {timestamp} is out of range: from {lowest} to {highest}",
            )


def _reject(record_errors: list[tuple[ErrorCode, int, str]]) -> NoReturn:
    codes = {code for code, _, _ in record_errors}
    raise RecordError(
        ErrorCode.INVALID_TIMESTAMP
        if ErrorCode.INVALID_TIMESTAMP in codes
        else ErrorCode.INVALID_RECORD,
        f"{len(record_errors)} records have been rejected: {record_errors[0][2]}",
        tuple((index, message) for _, index, message in record_errors),
    )


def validate_leader_batches(
    name: str, records: Buffer, start_offset: int, end_offset: int, max_epoch: int | None
) -> list[BatchHeader]:
    """Check that a leader's batches continue a follower's log.

    No batch may begin before the one before ends, the first before the end of the log. Compaction
    leaves gaps. One exception: DeleteRecords may move the leader's log start offset into a batch. A
    follower with an empty log at that offset receives the whole batch, which begins before its log.

    An incomplete last batch is ignored; so is one of a later epoch than `max_epoch`, with all after
    it.
    """
    headers: list[BatchHeader] = []
    expected = end_offset
    for header, batch in split_batches(records, torn_tail=True):
        if max_epoch is not None and header.leader_epoch > max_epoch:
            break
        if header.base_offset < expected or header.last_offset_delta < 0:
            contains_start = header.base_offset < expected <= header.last_offset
            if headers or not contains_start or start_offset != expected:
                raise RecordError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"the next batch of {name} must start at offset {expected}, got offsets "
                    f"{header.base_offset} to {header.last_offset}",
                )
        verify_checksum(header, batch)
        headers.append(header)
        expected = header.next_offset
    return headers


def has_gaps(end_offset: int, headers: Sequence[BatchHeader]) -> bool:
    """Return whether batches leave offsets out, also between the end of a log and the first."""
    for header in headers:
        if header.base_offset > end_offset:
            return True
        end_offset = header.next_offset
    return False


def batches_that_fit(
    headers: Sequence[BatchHeader], active_bytes: int, segment_bytes: int
) -> tuple[int, int]:
    """Count the batches that go into one segment: the active one, or a new one if none fits.

    A new segment takes its first batch whatever the batch's size.

    >>> from collections import namedtuple
    >>> headers = [namedtuple("Sized", "size")(each) for each in (40, 40, 40)]
    >>> batches_that_fit(headers, 10, 100)
    (2, 80)
    >>> batches_that_fit(headers, 90, 100)
    (2, 80)
    >>> batches_that_fit(headers, 90, 30)
    (1, 40)
    """
    room = segment_bytes - active_bytes
    if headers[0].size > room:
        room = max(segment_bytes, headers[0].size)
    count = size = 0
    for header in headers:
        if size + header.size > room:
            break
        size += header.size
        count += 1
    return count, size
