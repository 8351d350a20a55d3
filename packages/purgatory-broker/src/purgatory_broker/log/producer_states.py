"""The state of producers: to recognize a batch that is sent twice, and their transactions.

Source: Kafka's `ProducerStateManager` and `ProducerAppendInfo`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.aborted_transactions import AbortedTransaction, AbortedTransactions
from purgatory_broker.log.batch import UNSET, BatchHeader, Buffer
from purgatory_broker.log.control_batch import EndMarker, read_end_marker
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.open_transactions import OpenTransactions
from purgatory_broker.log.verification import PendingVerifications, VerificationGuard

#: The batches that are kept of each producer: the most that a producer may have in flight.
BATCHES_KEPT = 5

_LAST_SEQUENCE = 2**31 - 1


class ProducerBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    #: The max timestamp of the batch.
    timestamp: int


def producer_batch(header: BatchHeader, base_offset: int, timestamp: int) -> ProducerBatch:
    last_offset = base_offset + header.last_offset_delta
    first, last = header.base_sequence, header.last_sequence
    return ProducerBatch(first, last, base_offset, last_offset, timestamp)


@dataclass(slots=True, eq=False)
class ProducerState:
    """A producer's epoch and its last batches in this epoch, the oldest first."""

    epoch: int = UNSET
    batches: deque[ProducerBatch] = field(default_factory=partial(deque, maxlen=BATCHES_KEPT))
    last_timestamp: int = UNSET
    #: The last offset of its last batch or marker.
    last_offset: int = UNSET
    #: The coordinator's epoch in its last marker.
    coordinator_epoch: int = UNSET
    #: The first offset of its open transaction; None if it has none.
    transaction_start: int | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else UNSET


class ProducerStates(dict[int, ProducerState]):
    """The states of the producers that have appended to a log, by producer id."""

    __slots__ = ("transactions", "verifications")

    def __init__(self) -> None:
        super().__init__()
        self.transactions = OpenTransactions()
        self.verifications = PendingVerifications()

    # -- checks of a leader

    def find_duplicate(self, header: BatchHeader) -> ProducerBatch | None:
        producer = self.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        last = header.last_sequence
        for batch in producer.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == last:
                return batch
        return None

    def check(self, header: BatchHeader, *, internal: bool = False) -> None:
        """Refuse a batch that does not follow the producer's last one.

        An unknown producer may start with any sequence, except in a transaction that has bumped its
        epoch. `internal` batches have no sequences.
        """
        producer = self.get(header.producer_id)
        if producer is not None:
            check_epoch(header.producer_id, header.producer_epoch, producer)
        if not internal:
            self._check_sequence(header, producer)
        start = None if producer is None else producer.transaction_start
        if start is not None and not header.is_transactional:
            raise RecordError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has a transaction open since offset {start}, "
                "got a batch outside of it",
            )

    def _check_sequence(self, header: BatchHeader, producer: ProducerState | None) -> None:
        sequence, producer_id = header.base_sequence, header.producer_id
        if header.is_transactional:
            expected = self.verifications.highest_sequence(
                producer_id, has_batches=producer is not None and bool(producer.batches)
            )
            if expected is not None and sequence > expected:
                _refuse_sequence(
                    f"the transaction of producer {producer_id} must begin at sequence {expected}",
                    sequence,
                )
        if producer is None:
            return
        if header.producer_epoch != producer.epoch:
            if sequence != 0:
                _refuse_sequence(
                    f"epoch {header.producer_epoch} of producer {producer_id} must start at "
                    "sequence 0",
                    sequence,
                )
            return
        last = producer.last_sequence
        following = 0 if last == _LAST_SEQUENCE else last + 1
        if sequence != following:
            _refuse_sequence(
                f"the next sequence of producer {producer_id} must be {following}", sequence
            )

    def check_marker(self, header: BatchHeader, batch: Buffer) -> None:
        """Refuse the marker of a fenced producer, or of a coordinator that has been replaced."""
        marker = read_end_marker(header, batch)
        if marker is None:
            raise RecordError(ErrorCode.INVALID_RECORD, "the control batch is no end marker")
        producer = self.get(header.producer_id)
        if producer is None:
            return
        check_epoch(header.producer_id, header.producer_epoch, producer)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise RecordError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the last marker of producer {header.producer_id} has coordinator epoch "
                f"{producer.coordinator_epoch}, got one of epoch {marker.coordinator_epoch}",
            )

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        producer = self.get(producer_id)
        return (
            producer is not None
            and producer.transaction_start is not None
            and producer.epoch == producer_epoch
        )

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, adds: bool
    ) -> VerificationGuard | None:
        """Return what the append after a verification must show; None if none is needed.

        `adds`: the verification adds the partition to the transaction, as since Kafka 4.0.
        """
        producer = self.get(producer_id)
        if producer is not None:
            check_epoch(producer_id, producer_epoch, producer)
        if self.has_open_transaction(producer_id, producer_epoch):
            return None
        return self.verifications.start(producer_id, producer_epoch, sequence, now_ms, adds=adds)

    def check_verified(self, header: BatchHeader, guard: VerificationGuard | None) -> None:
        """Refuse a transaction's first batch that the coordinator does not know of.

        A marker ends the verifications of its producer. So a batch that arrives after the end of
        its transaction is refused, even if the coordinator has confirmed it before (KIP-890).
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        if self.has_open_transaction(producer_id, epoch):
            return
        producer = self.get(producer_id)
        if producer is not None:
            check_epoch(producer_id, epoch, producer)
        if not self.verifications.is_current(producer_id, guard):
            raise RecordError(
                ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
            )

    # -- appended batches

    def add(
        self,
        header: BatchHeader,
        batch: Buffer,
        base_offset: int,
        timestamp: int,
        aborted: AbortedTransactions,
    ) -> None:
        """Take over an appended batch; `aborted` are those of its segment.

        Of data batches the header is enough.
        """
        if header.is_control:
            marker = read_end_marker(header, batch)
            if marker is not None:
                self._end_transaction(header, marker, base_offset, timestamp, aborted)
            return
        producer = self._updated(header, base_offset, timestamp)
        producer.batches.append(producer_batch(header, base_offset, timestamp))
        if header.is_transactional:
            self.verifications.end(header.producer_id)
            if producer.transaction_start is None:
                producer.transaction_start = base_offset
                self.transactions.begin(base_offset)

    def _end_transaction(
        self,
        header: BatchHeader,
        marker: EndMarker,
        offset: int,
        timestamp: int,
        aborted: AbortedTransactions,
    ) -> None:
        producer = self._updated(header, offset, timestamp)
        producer.coordinator_epoch = marker.coordinator_epoch
        self.verifications.end(header.producer_id, marker_epoch=header.producer_epoch)
        start = producer.transaction_start
        if start is None:  # Nothing was written in this partition.
            return
        producer.transaction_start = None
        stable_offset = self.transactions.end(start, offset)
        if not marker.is_commit:
            aborted.add(AbortedTransaction(header.producer_id, start, offset, stable_offset))

    def _updated(self, header: BatchHeader, base_offset: int, timestamp: int) -> ProducerState:
        """Return the producer's state, with the epoch of a batch."""
        producer = self.get(header.producer_id)
        if producer is None:
            producer = self[header.producer_id] = ProducerState(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.last_timestamp = timestamp
        producer.last_offset = base_offset + header.last_offset_delta
        return producer

    # -- removal

    def remove_from(self, end_offset: int) -> dict[int, ProducerState]:
        """Remove and return the producers with a batch or marker from `end_offset` on."""
        removed = {
            producer_id: producer
            for producer_id, producer in self.items()
            if producer.last_offset >= end_offset
        }
        for producer_id in removed:
            del self[producer_id]
        return removed

    def truncate_transactions(self, end_offset: int) -> None:
        """Take back the markers from `end_offset` on, once the producers' states are restored."""
        self.verifications.clear()
        self.transactions.truncate_to(end_offset, self._transaction_starts())

    def _transaction_starts(self) -> Iterable[int]:
        return [
            producer.transaction_start
            for producer in self.values()
            if producer.transaction_start is not None
        ]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers, none of them with an open transaction, and old verifications."""
        self._remove(
            lambda producer: (
                producer.transaction_start is None
                and now_ms - producer.last_timestamp >= expiration_ms
            )
        )
        self.verifications.expire(now_ms, expiration_ms)

    def _remove(self, condition: Callable[[ProducerState], bool]) -> None:
        for producer_id in [each for each, producer in self.items() if condition(producer)]:
            del self[producer_id]

    def clear(self) -> None:
        super().clear()
        self.transactions.clear()
        self.verifications.clear()

    def check_invariants(
        self,
        batches: Iterable[tuple[BatchHeader, Buffer]],
        aborted: Iterable[AbortedTransaction],
    ) -> None:
        """Compare with what the batches of the log give when they are read again."""
        rebuilt, rebuilt_aborted = ProducerStates(), AbortedTransactions()
        first_offset = -1
        for header, batch in batches:
            first_offset = header.base_offset if first_offset < 0 else first_offset
            if header.has_producer:
                base_offset, timestamp = header.base_offset, header.max_timestamp
                rebuilt.add(header, batch, base_offset, timestamp, rebuilt_aborted)
        self.transactions.check(self._transaction_starts())
        for producer_id, expected in rebuilt.items():
            producer = self.get(producer_id)
            if producer is None:
                assert expected.transaction_start is None, (producer_id, expected)
                continue  # Expired.
            assert producer.epoch == expected.epoch, (producer_id, producer, expected)
            known = [batch[:3] for batch in producer.batches]
            in_log = [batch[:3] for batch in expected.batches]
            shared = min(len(known), len(in_log))
            assert shared == 0 or known[-shared:] == in_log[-shared:], (producer_id, known, in_log)
            start = producer.transaction_start
            if start is None or start >= first_offset:
                assert start == expected.transaction_start, (producer_id, producer, expected)
        in_order = list(aborted)
        for entry in rebuilt_aborted:
            # Of one that began before the log, or that was compacted, the log has a part.
            assert any(
                entry.producer_id == each.producer_id
                and entry.last_offset == each.last_offset
                and each.first_offset <= entry.first_offset
                for each in in_order
            ), (entry, in_order)


def check_epoch(producer_id: int, producer_epoch: int, producer: ProducerState) -> None:
    if producer_epoch < producer.epoch:
        raise RecordError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} has epoch {producer.epoch}, got epoch {producer_epoch}",
        )


def _refuse_sequence(expectation: str, sequence: int) -> None:
    raise RecordError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"{expectation}, got sequence {sequence}"
    )
