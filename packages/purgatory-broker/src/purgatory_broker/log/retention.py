"""Which segments a log deletes by their age and size."""

from __future__ import annotations

from collections.abc import Iterable

from purgatory_broker.log.batch import UNSET
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.segment import Segment


def expired_segments(
    segments: Iterable[Segment], settings: LogSettings, now_ms: int, high_watermark: int
) -> list[Segment]:
    # A segment is as old as its latest timestamp; without one it never expires.
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
