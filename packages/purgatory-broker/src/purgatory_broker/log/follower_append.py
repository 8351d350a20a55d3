"""The steps of appending a leader's batches to a follower's log."""

from __future__ import annotations

from collections.abc import Sequence

from purgatory_broker.log.batch import BatchHeader, Buffer, split_batches, verify_checksum
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.wire.error_code import ErrorCode


def validate_leader_batches(
    name: str, records: Buffer, start_offset: int, end_offset: int, max_epoch: int | None
) -> list[BatchHeader]:
    """Check that a leader's batches continue a follower's log.

    Each batch must begin where the one before ends, the first at the end of the log. One exception:
    DeleteRecords may move the leader's log start offset into a batch. A follower with an empty log
    at that offset receives the whole batch, which begins before its log.

    An incomplete last batch is ignored; so is one of a later epoch than `max_epoch`, with all after
    it.
    """
    headers: list[BatchHeader] = []
    expected = end_offset
    for header, batch in split_batches(records, torn_tail=True):
        if max_epoch is not None and header.leader_epoch > max_epoch:
            break
        if header.base_offset != expected or header.last_offset_delta < 0:
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
