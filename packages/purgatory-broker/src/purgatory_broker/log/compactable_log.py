"""What compaction does to a log."""

from __future__ import annotations

import logging

from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.log_folder import LogFolder
from purgatory_broker.log.readable_log import ReadableLog
from purgatory_broker.log.recovery import RecoveredLog
from purgatory_broker.log.segment import Segment
from purgatory_broker.log.segments import Segments
from purgatory_broker.log.store import MemoryStore

logger = logging.getLogger(__name__)


class CompactableLog(ReadableLog):
    def __init__(
        self,
        name: str,
        segments: Segments,
        recovered: RecoveredLog,
        folder: LogFolder | None,
        cleaned_offset: int | None,
    ) -> None:
        super().__init__(
            name, segments, recovered.start_offset, recovered.epochs, recovered.producers
        )
        self._folder = folder
        #: None if the log was never compacted, and so has no gaps.
        self._cleaned_offset = cleaned_offset
        if cleaned_offset is not None:
            self._cleaned_offset = min(cleaned_offset, self.end_offset)

    @property
    def cleaned_offset(self) -> int:
        """The offset up to which each key has one record at most: Kafka's cleaner checkpoint."""
        return max(self._cleaned_offset or 0, self._start_offset)

    def note_cleaned(self, offset: int) -> None:
        self._require_open()
        if self._folder is not None:
            self._folder.cleaned_offset.write(offset)
        self._cleaned_offset = offset

    def _allow_gaps(self) -> None:
        """Note that opening the log will find gaps, before the first one comes."""
        if self._cleaned_offset is None:
            self.note_cleaned(0)

    def _limit_cleaned_offset(self) -> None:
        """Take back, after a truncation, that records that follow were compacted."""
        if (self._cleaned_offset or 0) > self.end_offset:
            self.note_cleaned(self.end_offset)

    def roll(self) -> None:
        """Start a new active segment, unless the present one is empty."""
        self._require_open()
        if self._segments.active.size:
            self._segments.roll()

    @property
    def active_segment(self) -> Segment:
        return self._segments.active

    def closed_segments(self, limit_offset: int) -> list[Segment]:
        """Return the segments before the active one that end at `limit_offset` or before."""
        active = self._segments.active
        return [
            segment
            for segment in self._segments
            if segment is not active and segment.next_offset <= limit_offset
        ]

    def has_segments(self, segments: list[Segment]) -> bool:
        """Return whether the log is open and has some consecutive segments; none may be active."""
        return (
            not self._closed
            and self._segments.active is not segments[-1]
            and self._segments.have(segments)
        )

    def new_cleaned_segment(self, base_offset: int) -> Segment:
        """Return a segment to compact others into, which is not part of the log yet."""
        self._require_open()
        self._allow_gaps()
        if self._folder is None:
            return Segment(base_offset, MemoryStore())
        return self._folder.cleaned_segment(base_offset)

    def replace_segments(self, old: list[Segment], cleaned: Segment) -> None:
        """Put a compacted segment in the place of some.

        If the process dies before the file is renamed, nothing has changed. If it dies afterwards,
        the other old files are left, and `recover` deletes them: the new segment covers them. Kafka
        needs a second name in between, `.swap`, since it can't rename a file that is open.
        """
        if self._folder is not None:
            self._folder.take_place(cleaned)
        self._segments.replace(old, cleaned)
        # The oldest first: if the process dies, what is left has no gap.
        for segment in old[1:]:
            try:
                segment.store.delete()
            except RecordError as error:
                # Opening the log deletes it.
                logger.error("%s: the file of a compacted segment is left: %s", self.name, error)
