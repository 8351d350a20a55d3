"""The settings of one partition's log."""

from __future__ import annotations

from dataclasses import dataclass

from request_purgatory.errors import InvalidArgumentError

TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """A topic's settings that its logs go by: Kafka's names and defaults, with underscores for dots; None is without limit.

    Raises InvalidArgumentError, with the value, for one that no log can have.
    """

    #: A segment takes no batch that would make it larger, unless it is empty: a batch may be larger
    #: than a segment.
    segment_bytes: int = 67_108_864
    #: The largest batch that clients may append.
    max_message_bytes: int = 1_048_588
    retention_ms: int | None = 604_800_000
    retention_bytes: int | None = None
    #: Records appended before they are forced to the disk.
    flush_messages: int | None = None
    message_timestamp_type: str = "CreateTime"
    #: How far a record's own timestamp may lie before and after the append's time.
    message_timestamp_before_max_ms: int | None = None
    message_timestamp_after_max_ms: int | None = 3_600_000
    #: True refuses records without a key, as `cleanup.policy=compact` does; nothing is compacted.
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
        """True if the broker's time takes the place of the producer's."""
        return self.message_timestamp_type == "LogAppendTime"
