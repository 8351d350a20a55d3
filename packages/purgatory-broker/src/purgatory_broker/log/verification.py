"""PendingVerifications of transactions' first batches, from the question to the append (KIP-890).

Source: Kafka's `VerificationStateEntry` and `VerificationGuard`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class VerificationGuard:
    """Shown by an append to prove that its verification has not ended in between.

    Guards are compared by identity. A verification that a marker has ended, and another one of the
    same producer after it, must not be taken for each other.
    """

    __slots__ = ()


@dataclass(slots=True)
class _Verification:
    epoch: int
    #: No batch with a higher sequence may be appended first. A batch whose verification has failed
    #: is sent again, and would then be refused for ever.
    lowest_sequence: int
    #: Whether the epoch is bumped at the end of each transaction.
    adds: bool
    started_ms: int
    guard: VerificationGuard = field(default_factory=VerificationGuard)


class PendingVerifications:
    """The verifications of a log, by producer id: at most one of each producer."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def start(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, adds: bool
    ) -> VerificationGuard:
        """Return the guard of a producer's verification, a new one unless it has one."""
        entry = self._by_producer.get(producer_id)
        if entry is None:
            entry = _Verification(epoch, sequence, adds, now_ms)
            self._by_producer[producer_id] = entry
        elif epoch > entry.epoch:
            entry.epoch, entry.lowest_sequence = epoch, sequence
        elif epoch == entry.epoch and sequence < entry.lowest_sequence:
            entry.lowest_sequence = sequence
        return entry.guard

    def is_current(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        entry = self._by_producer.get(producer_id)
        return entry is not None and entry.guard is guard

    def highest_sequence(self, producer_id: int, *, has_batches: bool) -> int | None:
        """Return the highest sequence of a first batch; None if any is allowed."""
        entry = self._by_producer.get(producer_id)
        if entry is None:
            return None
        # After a bump of its epoch, a producer without batches in this epoch begins at 0.
        return 0 if entry.adds and not has_batches else entry.lowest_sequence

    def end(self, producer_id: int, *, marker_epoch: int | None = None) -> None:
        """End a verification after an append: of the batch, or of a marker.

        The marker of the last transaction has the epoch of the next one. If the next one is being
        verified already, that goes on.
        """
        entry = self._by_producer.get(producer_id)
        if entry is None or (marker_epoch == entry.epoch and entry.adds):
            return
        del self._by_producer[producer_id]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        for producer_id in [
            producer_id
            for producer_id, entry in self._by_producer.items()
            if now_ms - entry.started_ms >= expiration_ms
        ]:
            del self._by_producer[producer_id]

    def clear(self) -> None:
        self._by_producer.clear()
