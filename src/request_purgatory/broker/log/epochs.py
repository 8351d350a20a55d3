"""Which leader epoch each offset was written in."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from itertools import pairwise

logger = logging.getLogger(__name__)

#: Kafka's answer where an epoch or its end is not known.
UNDEFINED = -1


class LeaderEpochs:
    """Leader epochs and where each begins; both grow.

    It ends where the next one begins, the last with the log.

    A follower that has fetched up to epoch e asks the leader where its epoch e ends, and cuts off
    what it has beyond that: the records of a leader that went away before they were replicated.

    >>> epochs = LeaderEpochs("orders-0")
    >>> epochs.assign(1, 0); epochs.assign(4, 30)
    >>> epochs.end_offset_for(2, 50), epochs.end_offset_for(4, 50), epochs.end_offset_for(5, 50)
    ((1, 30), (4, 50), (-1, -1))
    """

    __slots__ = ("_epochs", "_starts", "name")

    def __init__(self, name: str) -> None:
        """`name` is the partition's, for logs."""
        self.name = name
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def latest(self) -> int:
        """The last epoch that has begun, UNDEFINED if none has."""
        return self._epochs[-1] if self._epochs else UNDEFINED

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of each, the oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """An epoch begins, or goes on, at an offset.

        Entries that contradict it go: the newer one knows better.
        """
        epochs, starts = self._epochs, self._starts
        if epoch < 0 or (epochs and epoch == epochs[-1] and start_offset >= starts[-1]):
            return
        removed: list[tuple[int, int]] = []
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            removed.append((epochs.pop(), starts.pop()))
        if any(start != start_offset for _, start in removed):
            logger.warning(
                "%s: epoch %d at offset %d takes the place of %s",
                self.name,
                epoch,
                start_offset,
                removed,
            )
        epochs.append(epoch)
        starts.append(start_offset)

    def start_of(self, epoch: int) -> int | None:
        """Where an epoch begins, None if it is not known."""
        index = bisect_left(self._epochs, epoch)
        return (
            self._starts[index]
            if index < len(self._epochs) and self._epochs[index] == epoch
            else None
        )

    def epoch_at(self, offset: int) -> int:
        """The epoch that an offset was written in, or would be; UNDEFINED before the first."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else UNDEFINED

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch that is not larger than `epoch`, and where it ends.

        For an epoch before the first, itself and the start of the first, since what was in it is
        gone; (UNDEFINED, UNDEFINED) for one after the last.
        """
        epochs = self._epochs
        if epoch == UNDEFINED or not epochs or epoch > epochs[-1]:
            return UNDEFINED, UNDEFINED
        if epoch == epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(epochs, epoch)
        return (epochs[higher - 1] if higher else epoch), self._starts[higher]

    def truncate_end(self, end_offset: int) -> None:
        """The log ends at `end_offset`: epochs that begin there or later are gone."""
        keep = bisect_left(self._starts, end_offset)
        del self._starts[keep:], self._epochs[keep:]

    def truncate_start(self, start_offset: int) -> None:
        """The log begins at `start_offset`.

        That is where the epoch begins that it lies in, and older ones are gone.
        """
        covering = bisect_right(self._starts, start_offset) - 1
        if covering >= 0:
            del self._starts[:covering], self._epochs[:covering]
            self._starts[0] = start_offset

    def clear(self) -> None:
        """Forget all of them."""
        self._starts.clear()
        self._epochs.clear()

    def check(self, start_offset: int, end_offset: int) -> None:
        """Assert that both columns grow, and lie within the log."""
        for column in (self._epochs, self._starts):
            assert all(a < b for a, b in pairwise(column)), self.entries
        assert (
            not self._starts or start_offset <= self._starts[0] <= self._starts[-1] <= end_offset
        ), (self.entries, end_offset)
