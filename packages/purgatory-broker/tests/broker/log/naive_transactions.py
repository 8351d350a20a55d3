"""The transactions of a log by a look at all its batches: slow, and obviously correct."""

from __future__ import annotations

from dataclasses import dataclass, field

from purgatory_broker._wire.error_code import ErrorCode


@dataclass(frozen=True)
class Entry:
    """A batch of data, or a marker."""

    base: int
    values: tuple[bytes, ...]
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False
    #: For a marker whether it commits; None for data.
    commits: bool | None = None

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.base + max(len(self.values), 1)


@dataclass
class Verification:
    """A question to the coordinator."""

    guard: object
    epoch: int
    lowest: int
    adds: bool


@dataclass
class NaiveTransactions:
    """A log as a list of entries."""

    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    verifications: dict[int, Verification] = field(default_factory=dict)

    # -- changes

    def append(self, entry: Entry) -> None:
        """Append a batch or a marker."""
        self.entries.append(entry)
        self.end = entry.end
        verification = self.verifications.get(entry.producer)
        if verification is not None and entry.is_transactional:
            is_next = entry.commits is not None and verification.adds
            if not (is_next and verification.epoch == entry.epoch):
                del self.verifications[entry.producer]

    def truncate(self, offset: int, first_offset: int) -> None:
        """Remove the batch that contains `offset` and later ones; the files have `first_offset`."""
        if offset >= self.end:
            return
        lost = [entry for entry in self.entries if entry.end > offset]
        base = min([offset, *(entry.base for entry in lost)])
        if base <= self.start:
            self.entries = []
            self.start = self.end = min(offset, self.start)
        else:
            producers = {entry.producer for entry in lost}
            self.entries = [
                entry
                for entry in self.entries
                if entry.end <= base
                and (entry.base >= first_offset or entry.producer not in producers)
            ]
            self.end = base
        self.verifications.clear()
        self.high_watermark = min(self.high_watermark, self.end)

    def forget_before(self, first_offset: int) -> None:
        """Forget what the files no longer have, as recovery does."""
        self.entries = [entry for entry in self.entries if entry.base >= first_offset]
        self.verifications.clear()

    # -- producers

    def of(self, producer: int) -> list[Entry]:
        """Return the entries of a producer."""
        return [entry for entry in self.entries if entry.producer == producer]

    def epoch(self, producer: int) -> int | None:
        """Return the epoch of its last batch or marker."""
        entries = self.of(producer)
        return entries[-1].epoch if entries else None

    def batches(self, producer: int) -> list[Entry]:
        """Return its last batches, at most five, since its last change of epoch."""
        entries = self.of(producer)
        since = [entry.epoch != entries[-1].epoch for entry in entries]
        first = len(since) - since[::-1].index(True) if True in since else 0
        return [entry for entry in entries[first:] if entry.commits is None][-5:]

    def next_sequence(self, producer: int) -> int:
        """Return the sequence that follows."""
        batches = self.batches(producer)
        return batches[-1].sequence + len(batches[-1].values) if batches else 0

    def open_since(self, producer: int) -> int | None:
        """Return the first offset of its open transaction."""
        since = None
        for entry in self.of(producer):
            if entry.commits is not None:
                since = None
            elif entry.is_transactional and since is None:
                since = entry.base
        return since

    def verify(self, producer: int, epoch: int, sequence: int, *, adds: bool) -> bool | ErrorCode:
        """Note a question; return whether one is needed, or the error."""
        known = self.epoch(producer)
        if known is not None and epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.open_since(producer) is not None and known == epoch:
            return False
        entry = self.verifications.get(producer)
        if entry is None:
            self.verifications[producer] = Verification(None, epoch, sequence, adds)
        elif epoch > entry.epoch:
            entry.epoch, entry.lowest = epoch, sequence
        elif epoch == entry.epoch:
            entry.lowest = min(entry.lowest, sequence)
        return True

    def refusal(
        self, producer: int, epoch: int, sequence: int, guard: object, *, transactional: bool
    ) -> ErrorCode | None:
        """Return the error of a batch that is no duplicate; None if it is appended."""
        known, since = self.epoch(producer), self.open_since(producer)
        verification = self.verifications.get(producer) if transactional else None
        if known is not None and epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        is_open = since is not None and known == epoch
        is_verified = verification is not None and verification.guard is guard
        if transactional and not is_open and not is_verified:
            return ErrorCode.INVALID_TXN_STATE
        if verification is not None:
            begins = verification.adds and not self.batches(producer)
            if sequence > (0 if begins else verification.lowest):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if known is not None:
            expected = self.next_sequence(producer) if known == epoch else 0
            if sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if since is not None and not transactional:
            return ErrorCode.INVALID_TXN_STATE
        return None

    # -- transactions

    def transactions(self) -> list[tuple[int, int, int | None, bool]]:
        """Return (producer, first offset, marker's offset or None, whether it is aborted)."""
        found: list[tuple[int, int, int | None, bool]] = []
        for producer in {entry.producer for entry in self.entries} - {-1}:
            since = None
            for entry in self.of(producer):
                if entry.commits is not None:
                    if since is not None:
                        found.append((producer, since, entry.base, not entry.commits))
                    since = None
                elif entry.is_transactional and since is None:
                    since = entry.base
            if since is not None:
                found.append((producer, since, None, False))
        return found

    def first_unstable(self) -> int | None:
        """Return the first offset of a transaction that is open or not replicated."""
        unstable = [
            first
            for _, first, marker, _ in self.transactions()
            if marker is None or marker >= self.high_watermark
        ]
        return max(min(unstable), self.start) if unstable else None

    def stable_offset(self) -> int:
        """Return the last stable offset."""
        unstable = self.first_unstable()
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def aborted(self, offset: int, limit: int) -> set[tuple[int, int]]:
        """Return (producer, first offset) of the aborted ones with records in a range."""
        return {
            (producer, first)
            for producer, first, marker, is_aborted in self.transactions()
            if is_aborted and marker is not None and marker >= offset and first < limit
        }

    def committed(self) -> list[tuple[int, bytes]]:
        """Return (offset, value) of all that a read_committed consumer reads."""
        spans = [
            (producer, first, marker)
            for producer, first, marker, is_aborted in self.transactions()
            if is_aborted and marker is not None
        ]
        return [
            (entry.base + index, value)
            for entry in self.entries
            for index, value in enumerate(entry.values)
            if self.start <= entry.base + index < self.stable_offset()
            and not any(
                entry.is_transactional
                and entry.producer == producer
                and first <= entry.base < marker
                for producer, first, marker in spans
            )
        ]

    def record_count(self) -> int:
        """Return the number of records below the high watermark."""
        return sum(
            self.start <= entry.base + index < self.high_watermark
            for entry in self.entries
            for index in range(len(entry.values))
        )
