"""The leader epoch of each offset: Kafka's `LeaderEpochFileCache`, without the file."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import pairwise

logger = logging.getLogger(__name__)

#: Kafka's answer for an unknown epoch or end offset.
UNDEFINED = -1


@dataclass(slots=True, eq=False)
class LeaderEpochs:
    """The leader epochs of a log and the offsets at which they start; both increase.

    An epoch ends where the next one starts, the latest at the end of the log.

    A follower that has fetched up to epoch e asks the leader where epoch e ends, and truncates its
    log there: later records are those of a former leader, and were not replicated in time.

    >>> epochs = LeaderEpochs("orders-0")
    >>> epochs.assign(1, 0); epochs.assign(4, 30)
    >>> epochs.end_offset_for(2, 50), epochs.end_offset_for(4, 50), epochs.end_offset_for(5, 50)
    ((1, 30), (4, 50), (-1, -1))
    """

    #: The partition's name in log messages.
    name: str
    _epochs: list[int] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else UNDEFINED

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of each epoch, the oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Start an epoch, and remove entries that contradict it; no-op if it is the latest one."""
        epochs, starts = self._epochs, self._starts
        if epoch < 0 or (epochs and epoch == epochs[-1] and start_offset >= starts[-1]):
            return
        removed: list[tuple[int, int]] = []
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            removed.append((epochs.pop(), starts.pop()))
        if any(start != start_offset for _, start in removed):
            logger.warning(
                "%s: epoch %d at offset %d replaces %s", self.name, epoch, start_offset, removed
            )
        epochs.append(epoch)
        starts.append(start_offset)

    def start_offset_of(self, epoch: int) -> int | None:
        index = bisect_left(self._epochs, epoch)
        if index < len(self._epochs) and self._epochs[index] == epoch:
            return self._starts[index]
        return None

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of the record at `offset`; UNDEFINED before the oldest epoch."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else UNDEFINED

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch`, and the offset where that epoch ends.

        For an epoch before the oldest: `epoch` and the start of the oldest. For an epoch after the
        latest: (UNDEFINED, UNDEFINED).
        """
        epochs = self._epochs
        if epoch == UNDEFINED or not epochs or epoch > epochs[-1]:
            return UNDEFINED, UNDEFINED
        if epoch == epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(epochs, epoch)
        return (epochs[higher - 1] if higher else epoch), self._starts[higher]

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that start at `end_offset` or later."""
        keep = bisect_left(self._starts, end_offset)
        del self._starts[keep:], self._epochs[keep:]

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs before `start_offset`; the one that contains it starts there."""
        covering = bisect_right(self._starts, start_offset) - 1
        if covering >= 0:
            del self._starts[:covering], self._epochs[:covering]
            self._starts[0] = start_offset

    def clear(self) -> None:
        self._starts.clear()
        self._epochs.clear()

    def check(self, start_offset: int, end_offset: int) -> None:
        for column in (self._epochs, self._starts):
            assert all(a < b for a, b in pairwise(column)), self.entries
        assert (
            not self._starts or start_offset <= self._starts[0] <= self._starts[-1] <= end_offset
        ), (self.entries, end_offset)
