"""Finds the segments that a log's retention settings no longer keep."""

from __future__ import annotations

from collections.abc import Iterable

from purgatory_broker.log.batch import UNSET
from purgatory_broker.log.segment import Segment
from purgatory_broker.log.settings import LogSettings


def expired_segments(
    segments: Iterable[Segment], settings: LogSettings, now_ms: int, high_watermark: int
) -> list[Segment]:
    """Find the segments at the beginning of a log to delete for `retention_bytes` or `_ms`.

    A segment is as old as its latest timestamp; one without timestamps never expires. A segment
    that ends after the high watermark is kept, with all later ones.
    """
    segments = list(segments)
    surplus_bytes = -1
    if settings.retention_bytes is not None:
        surplus_bytes = sum(segment.size for segment in segments) - settings.retention_bytes
    expired_before_ms = UNSET if settings.retention_ms is None else now_ms - settings.retention_ms
    expired: list[Segment] = []
    for segment in segments:
        if segment.next_offset > high_watermark or not segment.size:
            break
        is_surplus = surplus_bytes >= segment.size
        is_old = UNSET < segment.max_timestamp < expired_before_ms
        if not is_surplus and not is_old:
            break
        surplus_bytes -= segment.size
        expired.append(segment)
    return expired
