"""Which part of a log can be compacted, and whether it is time. Source: Kafka's `LogToClean`."""

from __future__ import annotations

from typing import NamedTuple

from purgatory_broker.log.compactable_log import CompactableLog
from purgatory_broker.log.log_settings import LogSettings


class Cleanable(NamedTuple):
    #: Segments that end at this offset or before can be compacted.
    limit_offset: int
    clean_bytes: int
    dirty_bytes: int
    #: Some dirty records are older than `max_compaction_lag_ms`.
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, settings: LogSettings) -> bool:
        return (self.is_overdue and self.dirty_bytes > 0) or (
            self.dirty_ratio > settings.min_cleanable_dirty_ratio
        )


def cleanable(
    log: CompactableLog, settings: LogSettings, now_ms: int, limit_offset: int
) -> Cleanable:
    """Look at the segments up to `limit_offset`, the last stable one; the active one is left out.

    `min_compaction_lag_ms` is the least age of a segment by its latest record.
    """
    start_offset = log.cleaned_offset
    segments = log.closed_segments(limit_offset)
    dirty = [segment for segment in segments if segment.next_offset > start_offset]
    oldest = min(
        (
            segment.first_timestamp
            for segment in log.closed_segments(log.end_offset)
            if segment.next_offset > start_offset and segment.first_timestamp > 0
        ),
        default=now_ms,
    )
    if settings.min_compaction_lag_ms > 0:
        latest = now_ms - settings.min_compaction_lag_ms
        young = next((segment for segment in dirty if segment.max_timestamp > latest), None)
        if young is not None:
            limit_offset = min(limit_offset, young.base_offset)
            dirty = [segment for segment in dirty if segment.next_offset <= limit_offset]
    clean_bytes = sum(segment.size for segment in segments if segment.next_offset <= start_offset)
    return Cleanable(
        limit_offset,
        clean_bytes,
        sum(segment.size for segment in dirty),
        oldest < now_ms - settings.max_compaction_lag_ms,
    )
