"""The settings of one partition's log."""

from __future__ import annotations

from dataclasses import dataclass

from request_purgatory.errors import InvalidArgumentError

TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The topic settings that a log uses, with Kafka's defaults; None means no limit."""

    #: A batch that would make a segment larger than this starts a new segment. An empty segment
    #: accepts a batch of any size.
    segment_bytes: int = 67_108_864
    #: The largest batch that clients may append.
    max_message_bytes: int = 1_048_588
    retention_ms: int | None = 604_800_000
    retention_bytes: int | None = None
    #: Flush to the disk after this number of records.
    flush_messages: int | None = None
    message_timestamp_type: str = "CreateTime"
    #: How far a record's timestamp may be before and after the time of its append.
    message_timestamp_before_max_ms: int | None = None
    message_timestamp_after_max_ms: int | None = 3_600_000
    #: Refuse records without a key, as with `cleanup.policy=compact`. Nothing is compacted.
    compacted: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.segment_bytes < 2**31:
            raise InvalidArgumentError(
                "segment_bytes", "at least 1 and below 2^31", self.segment_bytes
            )
        if self.flush_messages is not None and self.flush_messages < 1:
            raise InvalidArgumentError("flush_messages", "at least 1", self.flush_messages)
        if self.message_timestamp_type not in TIMESTAMP_TYPES:
            raise InvalidArgumentError(
                "message_timestamp_type", " or ".join(TIMESTAMP_TYPES), self.message_timestamp_type
            )
        for name in (
            "max_message_bytes",
            "retention_ms",
            "retention_bytes",
            "message_timestamp_before_max_ms",
            "message_timestamp_after_max_ms",
        ):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InvalidArgumentError(name, "at least 0", value)

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"
