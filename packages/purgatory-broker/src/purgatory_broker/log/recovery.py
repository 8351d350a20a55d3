"""Rebuilds a log from the files in its folder."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from purgatory_broker.log.batch import split_batches, verify_checksum
from purgatory_broker.log.closed_segment import index_closed_segment
from purgatory_broker.log.leader_epochs import LeaderEpochs
from purgatory_broker.log.log_errors import RecordError, StorageError, storage_errors
from purgatory_broker.log.log_folder import (
    CLEAN_SHUTDOWN_FILE,
    CLEANED_SUFFIX,
    CleanShutdown,
    read_clean_shutdown,
)
from purgatory_broker.log.producer_states import ProducerStates
from purgatory_broker.log.segment import BatchEntry, Segment, segment_name

logger = logging.getLogger(__name__)

_SEGMENT_NAME = re.compile(r"[0-9]{20}\.log")
#: The bytes that are read at a time, unless a batch is larger.
_CHUNK_BYTES = 4_194_304


class RecoveredLog(NamedTuple):
    """The state of a log that its files hold; at least one segment."""

    segments: list[Segment]
    start_offset: int
    epochs: LeaderEpochs
    producers: ProducerStates


def recover(
    name: str,
    folder: Path,
    new_segment: Callable[[int], Segment],
    start_offset: int | None,
    *,
    has_gaps: bool,
) -> RecoveredLog:
    """Read every batch in a folder, and keep the valid ones up to the first invalid one.

    A batch that does not begin where the one before ends is invalid, unless the log `has_gaps`,
    which compaction leaves. They are never between two segments.

    A log that was closed in an orderly way, and has the same size as then, keeps all of its
    batches; see `index_closed_segment`. Otherwise:

    1. Delete segments that end before `start_offset`, without reading them: their deletion was
       interrupted.
    2. Truncate a segment at its first batch that is incomplete or does not match its checksum. The
       process or the machine died during this append.
    3. Delete later segments, unless they start at the offset where the truncated one ends: then an
       append failed on a full disk, and the next one started a new segment. Those that a compacted
       segment has replaced, and that a kill has left, are deleted so, too.
    4. If the log ends before `start_offset`, delete all of it, and start with an empty segment.
    """
    epochs, producers = LeaderEpochs(name), ProducerStates()
    segments: list[Segment] = []
    base_offsets = _segment_base_offsets(folder)
    shutdown = _clean_shutdown(folder, base_offsets)
    while start_offset is not None and len(base_offsets) > 1 and base_offsets[1] <= start_offset:
        _delete(folder / segment_name(base_offsets.pop(0)))
    if shutdown is not None:
        try:
            for base_offset, end_offset in pairwise([*base_offsets, shutdown.end_offset]):
                segments.append(new_segment(base_offset))
                index_closed_segment(segments[-1], end_offset, epochs, producers, has_gaps=has_gaps)
        except StorageError:
            for segment in segments:
                segment.store.close()
            raise
        base_offsets.clear()
    for base_offset in base_offsets:
        path = folder / segment_name(base_offset)
        if segments and base_offset != segments[-1].next_offset:
            logger.warning(
                "%s: %s, %d bytes, is deleted: the log is valid only up to offset %d",
                name,
                path,
                path.stat().st_size,
                segments[-1].next_offset,
            )
            _delete(path)
            continue
        segment = new_segment(base_offset)
        segments.append(segment)
        _index(segment, epochs, producers, has_gaps=has_gaps)
    if segments and start_offset is not None and segments[-1].next_offset < start_offset:
        logger.warning(
            "%s: the log is deleted: it ends at offset %d, before its start offset %d",
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
        segments.append(new_segment(start_offset or 0))
    start_offset = max(start_offset or 0, segments[0].base_offset)
    epochs.truncate_from_end(segments[-1].next_offset)
    epochs.truncate_from_start(start_offset)
    # Not before: a damaged log that can't be opened must not be taken for crashed the next time.
    _delete(folder / CLEAN_SHUTDOWN_FILE)
    return RecoveredLog(segments, start_offset, epochs, producers)


def _segment_base_offsets(folder: Path) -> list[int]:
    """Return the base offsets of the segments; delete files that were not complete yet."""
    for pattern in ("*.tmp", f"*{CLEANED_SUFFIX}"):
        for partial in folder.glob(pattern):
            _delete(partial)
    return sorted(
        int(path.stem) for path in folder.glob("*.log") if _SEGMENT_NAME.fullmatch(path.name)
    )


def _clean_shutdown(folder: Path, base_offsets: list[int]) -> CleanShutdown | None:
    """Return how the log was closed; None if it was not, or its files have other sizes since."""
    shutdown = read_clean_shutdown(folder)
    if shutdown is None:
        return None
    size = sum((folder / segment_name(base_offset)).stat().st_size for base_offset in base_offsets)
    return shutdown if base_offsets and size == shutdown.size_bytes else None


def _delete(path: Path) -> None:
    with storage_errors(f"deleting {path}"):
        path.unlink(missing_ok=True)


def _index(
    segment: Segment, epochs: LeaderEpochs, producers: ProducerStates, *, has_gaps: bool
) -> None:
    """Index the valid batches that a segment begins with, and truncate it after them."""
    size = segment.size
    position = 0
    reason = None
    while position < size and reason is None:
        chunk = segment.store.read(position, min(_CHUNK_BYTES, size - position))
        indexed, damage = _index_chunk(segment, chunk, position, epochs, producers, has_gaps)
        batch_size = int.from_bytes(chunk[8:12], signed=True) + 12
        if indexed == 0 and len(chunk) < min(batch_size, size - position):
            # According to its header, the first batch is larger than a chunk.
            chunk = segment.store.read(position, min(batch_size, size - position))
            indexed, damage = _index_chunk(segment, chunk, position, epochs, producers, has_gaps)
        if indexed == 0:
            reason = damage
        position += indexed
    if reason is not None:
        logger.warning(
            "%s: %d bytes at %d are truncated, the next offset is %d: %s",
            epochs.name,
            size - position,
            position,
            segment.next_offset,
            reason,
        )
        segment.store.truncate(position)


def _index_chunk(
    segment: Segment,
    chunk: bytes,
    position: int,
    epochs: LeaderEpochs,
    producers: ProducerStates,
    has_gaps: bool,
) -> tuple[int, str]:
    """Index the valid batches that `chunk` begins with; return their size, and what ends them.

    The end is also where the chunk cuts a batch, which the next chunk begins with.
    """
    indexed = 0
    try:
        for header, batch in split_batches(chunk):
            gap = header.base_offset - segment.next_offset
            if gap < 0 or (gap and not has_gaps) or header.last_offset_delta < 0:
                return indexed, (
                    f"the next batch can't have offsets {header.base_offset} "
                    f"to {header.last_offset}"
                )
            verify_checksum(header, batch)
            segment.index(BatchEntry.of(header), position + indexed)
            epochs.assign(header.leader_epoch, header.base_offset)
            if header.has_producer:
                base_offset, timestamp = header.base_offset, header.max_timestamp
                producers.add(header, batch, base_offset, timestamp, segment.aborted)
            indexed += header.size
    except RecordError as error:
        return indexed, str(error)
    return indexed, ""
