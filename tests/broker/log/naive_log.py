"""A log as a list: slow, and easily seen to be right."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class NaiveBatch:
    """A batch."""

    base: int
    epoch: int
    values: list[bytes]
    time: int
    #: (id, epoch, first sequence), if it has a producer.
    producer: tuple[int, int, int] | None = None

    @property
    def end(self) -> int:
        """Where the next begins."""
        return self.base + len(self.values)


@dataclass
class NaiveLog:
    """Batches, and which epochs have begun where."""

    batches: list[NaiveBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)

    def begin(self, epoch: int) -> None:
        """An epoch begins at the end, or goes on."""
        if not self.epochs or self.epochs[-1][0] != epoch:
            self.epochs = [
                (each, at) for each, at in self.epochs if at < self.end and each < epoch
            ] + [(epoch, self.end)]

    def append(self, batch: NaiveBatch) -> None:
        """Add a batch."""
        self.begin(batch.epoch)
        self.batches.append(batch)
        self.end = batch.end

    def truncate(self, offset: int) -> None:
        """Cut off the batch with `offset` and all behind it."""
        if offset < self.end:
            end = min([batch.base for batch in self.batches if batch.end > offset], default=offset)
            if end <= self.start:
                self.restart(min(offset, self.start))
                return
            self.batches = [batch for batch in self.batches if batch.end <= end]
            self.end = end
        self.epochs = [(epoch, at) for epoch, at in self.epochs if at < self.end]

    def restart(self, offset: int) -> None:
        """Drop all, go on at `offset`."""
        self.batches, self.epochs = [], []
        self.start = self.end = offset

    def advance(self, offset: int) -> None:
        """Records before `offset` are gone."""
        if offset > self.start:
            self.start = offset
            self.batches = [batch for batch in self.batches if batch.end > offset]
            covering = [epoch for epoch, at in self.epochs if at <= offset][-1:]
            self.epochs = [(epoch, offset) for epoch in covering] + [
                (epoch, at) for epoch, at in self.epochs if at > offset
            ]

    def records(self) -> list[tuple[int, bytes]]:
        """(offset, value) of all."""
        found = [
            (batch.base + index, value)
            for batch in self.batches
            for index, value in enumerate(batch.values)
        ]
        return [(offset, value) for offset, value in found if offset >= self.start]

    def left_of(self, producer: int) -> list[tuple[int, int, int, int]]:
        """Return (epoch, first sequence, last sequence, base offset) of a producer's last batches that are left.

        Those of its last epoch, five at most.
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
        """The largest epoch up to `asked`, and where it ends."""
        if asked < 0 or not self.epochs or asked > self.epochs[-1][0]:
            return -1, -1
        ends = [at for epoch, at in self.epochs if epoch > asked] + [self.end]
        return max([epoch for epoch, _ in self.epochs if epoch <= asked], default=asked), ends[0]

    def at_time(self, time: int) -> tuple[int, int] | None:
        """The first record of that time or later."""
        found = [
            (batch.time, max(batch.base, self.start))
            for batch in self.batches
            if batch.time >= time
        ]
        return found[0] if found else None

    def read(self, offset: int, max_bytes: int, limit: int, sizes: dict[int, int]) -> list[int]:
        """Base offsets of what a read gives at least one of; `sizes` by base offset."""
        found: list[int] = []
        total = 0
        for batch in self.batches:
            total += sizes[batch.base] if batch.end > offset else 0
            if batch.end > offset and batch.end <= limit and (total <= max_bytes or not found):
                found.append(batch.base)
            elif batch.end > offset:
                break
        return found
