"""What a log finds in its folder when it is opened."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from request_purgatory.broker.log.batch import UNSET, split, verify
from request_purgatory.broker.log.epochs import LeaderEpochs
from request_purgatory.broker.log.errors import RecordError, storage_error
from request_purgatory.broker.log.producers import Producers
from request_purgatory.broker.log.segment import Placed, Segment
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

_SEGMENT_NAME = re.compile(r"[0-9]{20}\.log")
#: Read at a time, unless a batch is larger.
_CHUNK_BYTES = 4_194_304


class Recovered(NamedTuple):
    """A log as its files have it; at least one segment."""

    segments: list[Segment]
    start_offset: int
    epochs: LeaderEpochs
    producers: Producers


def segment_name(base_offset: int) -> str:
    """The name of a segment's file: Kafka's."""
    return f"{base_offset:020d}.log"


def recover(
    name: str, folder: Path, make_segment: Callable[[int], Segment], start_offset: int | None
) -> Recovered:
    """Read every batch in `folder`, and keep those that are whole, from the first on.

    After a batch that is torn or does not match its checksum, the rest of its segment and all later
    segments are cut off: that is where an append was when the process or the machine died. Later
    segments stay only if no offset is missing before them: what was cut off then is the part of an
    append that a full disk failed. Segments that end before `start_offset`, which is what a
    checkpoint says, were about to be deleted, and are, without being read.

    Raises:
        RecordError: KAFKA_STORAGE_ERROR if the system fails to read or cut a file.
    """
    epochs, producers = LeaderEpochs(name), Producers()
    segments: list[Segment] = []
    found = _found(folder)
    while start_offset is not None and len(found) > 1 and found[1] <= start_offset:
        _unlink(folder / segment_name(found.pop(0)))
    for base_offset in found:
        path = folder / segment_name(base_offset)
        if segments and base_offset != segments[-1].next_offset:
            logger.warning(
                "%s: %s is dropped with its %d bytes, since the log is whole only up to offset %d",
                name,
                path,
                path.stat().st_size,
                segments[-1].next_offset,
            )
            _unlink(path)
            continue
        segment = make_segment(base_offset)
        segments.append(segment)
        _index(segment, epochs, producers)
    if segments and start_offset is not None and segments[-1].next_offset < start_offset:
        logger.warning(
            "%s: the log ends at offset %d, before its start offset %d, and begins there anew",
            name,
            segments[-1].next_offset,
            start_offset,
        )
        for segment in segments:
            segment.store.delete()
        segments.clear()
        epochs.clear()
        producers.clear()
    if not segments:
        segments.append(make_segment(start_offset or 0))
    start_offset = max(start_offset or 0, segments[0].base_offset)
    epochs.truncate_end(segments[-1].next_offset)
    epochs.truncate_start(start_offset)
    return Recovered(segments, start_offset, epochs, producers)


def _found(folder: Path) -> list[int]:
    for partial in folder.glob("*.tmp"):
        _unlink(partial)
    return sorted(
        int(path.stem) for path in folder.glob("*.log") if _SEGMENT_NAME.fullmatch(path.name)
    )


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(f"deleting {path}", error) from error


def _index(segment: Segment, epochs: LeaderEpochs, producers: Producers) -> None:
    """Index the whole batches of a segment and cut off what follows them."""
    size = segment.size
    position = 0
    reason = None
    while position < size and reason is None:
        chunk = segment.store.read(position, min(_CHUNK_BYTES, size - position))
        read = _index_chunk(segment, chunk, position, epochs, producers)
        said = int.from_bytes(chunk[8:12], signed=True) + 12
        if read == 0 and len(chunk) < min(
            said, size - position
        ):  # A batch that is larger than a chunk, or says so.
            chunk = segment.store.read(position, min(said, size - position))
            read = _index_chunk(segment, chunk, position, epochs, producers)
        if read == 0:
            reason = _fault(segment, chunk)
        position += read
    if reason is not None:
        logger.warning(
            "%s: %d bytes at %d are cut off, offset %d is the next: %s",
            epochs.name,
            size - position,
            position,
            segment.next_offset,
            reason,
        )
        segment.store.truncate(position)


def _index_chunk(
    segment: Segment, chunk: bytes, position: int, epochs: LeaderEpochs, producers: Producers
) -> int:
    """Index the whole batches that `chunk`, which lies at `position`, begins with.

    How many bytes they are.
    """
    read = 0
    try:
        for header, batch in split(chunk, torn_tail=True):
            if header.base_offset != segment.next_offset or header.last_offset_delta < 0:
                break
            verify(header, batch)
            size = header.size
            segment.index(
                Placed(header.base_offset, header.next_offset, size, header.max_timestamp),
                position + read,
            )
            epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id > UNSET and not header.is_control:
                producers.add(header, header.base_offset, header.max_timestamp)
            read += size
    except RecordError as error:
        # The next chunk begins with the batch at fault, and tells why.
        if error.code not in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD):
            raise
    return read


def _fault(segment: Segment, chunk: bytes) -> str:
    """Why no batch that `chunk` begins with can be the segment's next."""
    try:
        for header, batch in split(chunk):
            if header.base_offset != segment.next_offset or header.last_offset_delta < 0:
                return f"a batch of offsets {header.base_offset} to {header.last_offset} can't be the next"
            verify(header, batch)
    except RecordError as error:
        return str(error)
    return "nothing"  # Unreachable: such a batch would have been indexed.
