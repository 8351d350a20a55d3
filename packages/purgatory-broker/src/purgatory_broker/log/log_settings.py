"""The settings of one partition's log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The topic settings that a log uses, which are valid; None means no limit."""

    #: A batch that would make a segment larger than this starts a new segment. An empty segment
    #: accepts a batch of any size.
    segment_bytes: int = 67_108_864
    #: The largest batch that clients may append.
    max_message_bytes: int = 1_048_588
    #: A batch whose timestamp is this much later than the first of a segment starts a new one.
    segment_ms: int | None = None
    retention_ms: int | None = 604_800_000
    retention_bytes: int | None = None
    #: Flush to the disk after this number of records.
    flush_messages: int | None = None
    message_timestamp_type: str = "CreateTime"
    #: How far a record's timestamp may be before and after the time of its append.
    message_timestamp_before_max_ms: int | None = None
    message_timestamp_after_max_ms: int | None = 3_600_000
    #: How long an idle producer is known, unless it has an open transaction.
    producer_id_expiration_ms: int = 86_400_000
    #: Keep only the last record of each key. Records without a key are refused.
    compacted: bool = False
    #: The part of a log's bytes that must be new for it to be compacted.
    min_cleanable_dirty_ratio: float = 0.5
    #: Records are not compacted before this age, and at the next look after the other one.
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    #: How long a tombstone is kept after the first compaction that has seen it.
    delete_retention_ms: int = 86_400_000

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"
