"""Idempotent producers.

What each last appended, so that a batch that is sent twice is there once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from request_purgatory.broker.log.batch import UNSET, BatchHeader
from request_purgatory.broker.log.errors import RecordError
from request_purgatory.broker.wire.error_code import ErrorCode

#: Of each producer: as many as a producer may have under way.
BATCHES_KEPT = 5
#: Kafka's default of `producer.id.expiration.ms`.
EXPIRATION_MS = 86_400_000

_LAST_SEQUENCE = 2**31 - 1


class ProducerBatch(NamedTuple):
    """A batch that a producer has appended."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    #: Its max timestamp.
    timestamp: int


class Producer:
    """What is known of one producer.

    Its epoch, and its last batches of this epoch, the oldest first.
    """

    __slots__ = ("batches", "epoch", "last_timestamp")

    def __init__(self, epoch: int = UNSET) -> None:
        self.epoch = epoch
        self.batches: deque[ProducerBatch] = deque(maxlen=BATCHES_KEPT)
        self.last_timestamp = UNSET


class Producers:
    """The producers of one partition, by their ids."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def duplicate(self, header: BatchHeader) -> ProducerBatch | None:
        """The batch that this one repeats, if it is among the last that are known of its producer."""
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        last = header.last_sequence
        for batch in producer.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == last:
                return batch
        return None

    def check(self, header: BatchHeader, *, internal: bool = False) -> None:
        """Refuse a batch that does not follow its producer's last.

        Of a producer that is not known, any sequence is taken: all it wrote may have been deleted.
        `internal` batches have no sequences, only epochs.

        Raises:
            RecordError: INVALID_PRODUCER_EPOCH for an older epoch than the last;
                OUT_OF_ORDER_SEQUENCE_NUMBER for a gap, or a new epoch that does not start at 0.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return
        if header.producer_epoch < producer.epoch:
            raise RecordError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {producer.epoch}, got a batch of epoch {header.producer_epoch}",
            )
        if internal:
            return
        sequence = header.base_sequence
        if header.producer_epoch > producer.epoch:
            if sequence != 0 and producer.epoch != UNSET:
                raise RecordError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"epoch {header.producer_epoch} of producer {header.producer_id} starts at sequence 0, got {sequence}",
                )
            return
        last = producer.batches[-1].last_sequence if producer.batches else UNSET
        following = 0 if last == _LAST_SEQUENCE else last + 1
        if sequence != following and producer.epoch != UNSET:
            raise RecordError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"after sequence {last} of producer {header.producer_id} comes {following}, got {sequence}",
            )

    def add(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """Note a batch that was appended at `base_offset`."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.last_timestamp = timestamp
        producer.batches.append(
            ProducerBatch(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                base_offset + header.last_offset_delta,
                timestamp,
            )
        )

    def cut(self, end_offset: int) -> set[int]:
        """Forget the producers that appended at `end_offset` or later, and say which.

        What is left of them is in the log.
        """
        cut = {
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.batches and producer.batches[-1].last_offset >= end_offset
        }
        for producer_id in cut:
            del self._producers[producer_id]
        return cut

    def restore(self, header: BatchHeader) -> bool:
        """Note a batch that was appended before those that are known of its producer.

        True if no more are needed of it.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = Producer(header.producer_epoch)
            producer.last_timestamp = header.max_timestamp
        elif producer.epoch != header.producer_epoch:
            return True
        producer.batches.appendleft(
            ProducerBatch(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
            )
        )
        return len(producer.batches) == BATCHES_KEPT

    def expire(self, now_ms: int) -> None:
        """Forget the producers that have written nothing for a day."""
        late = [
            each
            for each, producer in self._producers.items()
            if now_ms - producer.last_timestamp >= EXPIRATION_MS
        ]
        for producer_id in late:
            del self._producers[producer_id]

    def clear(self) -> None:
        """Forget all of them."""
        self._producers.clear()

    def check_invariants(self, batches: Collection[BatchHeader]) -> None:
        """Assert that all that is known is as the log's `batches` have it."""
        by_producer: dict[int, list[BatchHeader]] = {}
        for header in batches:
            if header.producer_id > UNSET and not header.is_control:
                by_producer.setdefault(header.producer_id, []).append(header)
        for producer_id, headers in by_producer.items():
            producer = self._producers.get(producer_id)
            if producer is None:
                continue  # Expired.
            assert producer.epoch == headers[-1].producer_epoch, (
                producer_id,
                producer.epoch,
                headers[-1],
            )
            known = [
                (batch.base_offset, batch.first_sequence, batch.last_sequence)
                for batch in producer.batches
            ]
            there = [
                (each.base_offset, each.base_sequence, each.last_sequence)
                for each in headers
                if each.producer_epoch == producer.epoch
            ]
            shared = min(len(known), len(there))
            assert known[-shared:] == there[-shared:], (producer_id, known, there)
