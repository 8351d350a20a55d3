"""Indexes a segment of a log that was closed in an orderly way, damaged batches included."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from purgatory_broker.log.batch import (
    HEADER_BYTES,
    UNSET,
    BatchHeader,
    read_header,
    verify_checksum,
)
from purgatory_broker.log.leader_epochs import LeaderEpochs
from purgatory_broker.log.log_errors import RecordError, StorageError
from purgatory_broker.log.producer_states import ProducerStates
from purgatory_broker.log.segment import BatchEntry, Segment

logger = logging.getLogger(__name__)

#: The bytes that are read at a time, unless a batch is larger.
_CHUNK_BYTES = 4_194_304
#: The base offset and the length, which precede what the length counts.
_PREFIX_BYTES = 12


def index_closed_segment(
    segment: Segment,
    end_offset: int,
    epochs: LeaderEpochs,
    producers: ProducerStates,
    *,
    has_gaps: bool,
) -> None:
    """Index every batch of a segment, between which a compacted log has gaps.

    As in Kafka, a damaged batch stays, and is sent to clients, who verify its checksum. Kafka finds
    batches by its index files, which are not read here. The offsets of a damaged batch follow from
    those of its neighbours.
    """
    is_damaged = False
    last_offset = segment.base_offset
    for position, batch in _batches(epochs.name, segment):
        header, damage = _examine(batch)
        base_offset = segment.next_offset
        if header is not None and is_damaged and header.base_offset > last_offset:
            # The header of the damaged batch before may have a wrong number of records.
            base_offset = segment.next_offset = header.base_offset
        elif header is not None and has_gaps and base_offset < header.base_offset < end_offset:
            base_offset = header.base_offset
        next_offset = base_offset + 1
        max_timestamp, hidden = UNSET, 0
        if header is not None and header.last_offset_delta >= 0:
            next_offset += header.last_offset_delta
            if header.base_offset != base_offset:
                damage = f"its base offset is {header.base_offset}"
            else:
                max_timestamp = header.max_timestamp
                epochs.assign(header.leader_epoch, base_offset)
                is_damaged_marker = header.is_control and damage is not None
                hidden = header.hidden_offsets if damage is None else int(header.is_control)
                if header.has_producer and not is_damaged_marker:
                    producers.add(header, batch, base_offset, max_timestamp, segment.aborted)
        if damage is not None:
            logger.warning(
                "%s: the batch at offset %d, %d bytes at %d, is damaged: %s",
                epochs.name,
                base_offset,
                len(batch),
                position,
                damage,
            )
        entry = BatchEntry(base_offset, next_offset, len(batch), max_timestamp, hidden)
        segment.index(entry, position)
        is_damaged = damage is not None
        last_offset = base_offset
    if is_damaged and end_offset > last_offset:
        segment.next_offset = end_offset
    if segment.next_offset != end_offset:
        raise StorageError(
            f"{epochs.name}: the segment at offset {segment.base_offset} is damaged: it ends at "
            f"{segment.next_offset}, but ended at {end_offset} when it was closed"
        )


def _batches(name: str, segment: Segment) -> Iterator[tuple[int, bytes]]:
    """Split a segment into batches by their lengths alone."""
    size = segment.size
    position = 0
    chunk, start = b"", 0
    while position < size:
        if position - start + _PREFIX_BYTES > len(chunk):
            chunk = segment.store.read(position, min(_CHUNK_BYTES, size - position))
            start = position
        prefix = chunk[position - start : position - start + _PREFIX_BYTES]
        length = _PREFIX_BYTES + int.from_bytes(prefix[8:], signed=True)
        if len(prefix) < _PREFIX_BYTES or not HEADER_BYTES <= length <= size - position:
            raise StorageError(
                f"{name}: the segment at offset {segment.base_offset} is damaged: no batch of "
                f"{length} bytes can be at {position} of {size}"
            )
        if position - start + length > len(chunk):
            needed = min(max(length, _CHUNK_BYTES), size - position)
            chunk, start = segment.store.read(position, needed), position
        yield position, chunk[position - start : position - start + length]
        position += length


def _examine(batch: bytes) -> tuple[BatchHeader | None, str | None]:
    """Return the header of a batch, None if it has none, and what is damaged."""
    header = None
    try:
        header = read_header(batch)
        verify_checksum(header, batch)
    except RecordError as error:
        return header, str(error)
    return header, None
