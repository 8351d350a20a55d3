"""A log as a list: slow, and obviously correct."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class NaiveBatch:
    """A batch of a `NaiveLog`."""

    base: int
    epoch: int
    values: list[bytes]
    time: int
    #: (producer id, epoch, first sequence) of an idempotent producer.
    producer: tuple[int, int, int] | None = None

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.base + len(self.values)


@dataclass
class NaiveLog:
    """A log as a list of batches, and a list of (epoch, start offset)."""

    batches: list[NaiveBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)

    def begin(self, epoch: int) -> None:
        """Start a leader epoch at the end of the log; no-op if it is the latest."""
        if not self.epochs or self.epochs[-1][0] != epoch:
            self.epochs = [
                (each, at) for each, at in self.epochs if at < self.end and each < epoch
            ] + [(epoch, self.end)]

    def append(self, batch: NaiveBatch) -> None:
        """Append a batch."""
        self.begin(batch.epoch)
        self.batches.append(batch)
        self.end = batch.end

    def truncate(self, offset: int) -> None:
        """Remove the batch that contains `offset`, and all later ones."""
        if offset < self.end:
            end = min([batch.base for batch in self.batches if batch.end > offset], default=offset)
            if end <= self.start:
                self.restart(min(offset, self.start))
                return
            self.batches = [batch for batch in self.batches if batch.end <= end]
            self.end = end
        self.epochs = [(epoch, at) for epoch, at in self.epochs if at < self.end]

    def restart(self, offset: int) -> None:
        """Remove everything, and start at `offset`."""
        self.batches, self.epochs = [], []
        self.start = self.end = offset

    def advance(self, offset: int) -> None:
        """Remove the records before `offset`."""
        if offset > self.start:
            self.start = offset
            self.batches = [batch for batch in self.batches if batch.end > offset]
            covering = [epoch for epoch, at in self.epochs if at <= offset][-1:]
            self.epochs = [(epoch, offset) for epoch in covering] + [
                (epoch, at) for epoch, at in self.epochs if at > offset
            ]

    def records(self) -> list[tuple[int, bytes]]:
        """Return (offset, value) of all records."""
        found = [
            (batch.base + index, value)
            for batch in self.batches
            for index, value in enumerate(batch.values)
        ]
        return [(offset, value) for offset, value in found if offset >= self.start]

    def remaining_batches(self, producer: int) -> list[tuple[int, int, int, int]]:
        """Return the batches of a producer's last epoch that are left, at most five.

        Each is (epoch, first sequence, last sequence, base offset).
        """
        found = [
            (
                batch.producer[1],
                batch.producer[2],
                batch.producer[2] + len(batch.values) - 1,
                batch.base,
            )
            for batch in self.batches
            if batch.producer is not None and batch.producer[0] == producer
        ]
        return [each for each in found if each[0] == found[-1][0]][-5:]

    def epoch_end(self, asked: int) -> tuple[int, int]:
        """Return the largest epoch up to `asked`, and its end offset."""
        if asked < 0 or not self.epochs or asked > self.epochs[-1][0]:
            return -1, -1
        ends = [at for epoch, at in self.epochs if epoch > asked] + [self.end]
        return max([epoch for epoch, _ in self.epochs if epoch <= asked], default=asked), ends[0]

    def at_time(self, time: int) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the first record at or after a time."""
        found = [
            (batch.time, max(batch.base, self.start))
            for batch in self.batches
            if batch.time >= time
        ]
        return found[0] if found else None

    def read(self, offset: int, max_bytes: int, limit: int, sizes: dict[int, int]) -> list[int]:
        """Return the base offsets of the batches that a read returns; `sizes` by base offset."""
        found: list[int] = []
        total = 0
        for batch in self.batches:
            total += sizes[batch.base] if batch.end > offset else 0
            if batch.end > offset and batch.end <= limit and (total <= max_bytes or not found):
                found.append(batch.base)
            elif batch.end > offset:
                break
        return found
