"""The state of idempotent producers, to recognize a batch that is sent twice.

Source: Kafka's `ProducerStateManager`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import UNSET, BatchHeader
from purgatory_broker.log.log_errors import RecordError

#: The batches that are kept of each producer: the most that a producer may have in flight.
BATCHES_KEPT = 5
#: Kafka's default of `producer.id.expiration.ms`.
EXPIRATION_MS = 86_400_000

_LAST_SEQUENCE = 2**31 - 1


class _ProducerBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    #: The max timestamp of the batch.
    timestamp: int


def _batch(header: BatchHeader, base_offset: int, timestamp: int) -> _ProducerBatch:
    last_offset = base_offset + header.last_offset_delta
    first, last = header.base_sequence, header.last_sequence
    return _ProducerBatch(first, last, base_offset, last_offset, timestamp)


@dataclass(slots=True, eq=False)
class ProducerState:
    """A producer's epoch and its last batches in this epoch, the oldest first."""

    epoch: int = UNSET
    batches: deque[_ProducerBatch] = field(default_factory=partial(deque, maxlen=BATCHES_KEPT))
    last_timestamp: int = UNSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else UNSET


class ProducerStates(dict[int, ProducerState]):
    """The states of the producers that have appended to a log, by producer id."""

    __slots__ = ()

    def find_duplicate(self, header: BatchHeader) -> _ProducerBatch | None:
        producer = self.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        last = header.last_sequence
        for batch in producer.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == last:
                return batch
        return None

    def check(self, header: BatchHeader, *, internal: bool = False) -> None:
        """Refuse what does not follow; an unknown producer may start with any sequence."""
        producer = self.get(header.producer_id)
        if producer is None:
            return
        if header.producer_epoch < producer.epoch:
            raise RecordError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {producer.epoch}, "
                f"got a batch of epoch {header.producer_epoch}",
            )
        if internal:
            return
        sequence = header.base_sequence
        if header.producer_epoch > producer.epoch:
            if sequence != 0 and producer.epoch != UNSET:
                raise RecordError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"epoch {header.producer_epoch} of producer {header.producer_id} must start "
                    f"at sequence 0, got {sequence}",
                )
            return
        last = producer.last_sequence
        expected = 0 if last == _LAST_SEQUENCE else last + 1
        if sequence != expected and producer.epoch != UNSET:
            raise RecordError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"the next sequence of producer {header.producer_id} must be {expected}, "
                f"got {sequence}",
            )

    def add(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        producer = self.get(header.producer_id)
        if producer is None:
            producer = self[header.producer_id] = ProducerState(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.last_timestamp = timestamp
        producer.batches.append(_batch(header, base_offset, timestamp))

    def truncate_to(self, end_offset: int) -> set[int]:
        """Forget producers that appended from `end_offset` on; `add_older` reads the rest again."""
        removed = {
            producer_id
            for producer_id, producer in self.items()
            if producer.batches and producer.batches[-1].last_offset >= end_offset
        }
        for producer_id in removed:
            del self[producer_id]
        return removed

    def add_older(self, header: BatchHeader) -> bool:
        """Add a batch before those that are known; return True if no earlier one is needed."""
        producer = self.get(header.producer_id)
        if producer is None:
            producer = self[header.producer_id] = ProducerState(header.producer_epoch)
            producer.last_timestamp = header.max_timestamp
        elif producer.epoch != header.producer_epoch:
            return True
        producer.batches.appendleft(_batch(header, header.base_offset, header.max_timestamp))
        return len(producer.batches) == BATCHES_KEPT

    def expire(self, now_ms: int) -> None:
        expired = [
            producer_id
            for producer_id, producer in self.items()
            if now_ms - producer.last_timestamp >= EXPIRATION_MS
        ]
        for producer_id in expired:
            del self[producer_id]

    def check_invariants(self, batches: Collection[BatchHeader]) -> None:
        by_producer: dict[int, list[BatchHeader]] = {}
        for header in batches:
            if header.has_producer_state:
                by_producer.setdefault(header.producer_id, []).append(header)
        for producer_id, headers in by_producer.items():
            producer = self.get(producer_id)
            if producer is None:
                continue  # Expired.
            epoch = producer.epoch
            assert epoch == headers[-1].producer_epoch, (producer_id, epoch, headers[-1])
            known = [
                (batch.base_offset, batch.first_sequence, batch.last_sequence)
                for batch in producer.batches
            ]
            in_log = [
                (header.base_offset, header.base_sequence, header.last_sequence)
                for header in headers
                if header.producer_epoch == epoch
            ]
            shared = min(len(known), len(in_log))
            assert known[-shared:] == in_log[-shared:], (producer_id, known, in_log)
