"""The records of coordinators, appended with acks=all as Kafka's coordinators do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.group_messages import Producer, TransactionalCommit
from purgatory_broker.log.batch import TRANSACTIONAL
from purgatory_broker.log.record import build_batch
from purgatory_broker.log.verification import VerificationGuard
from purgatory_broker.metadata.topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    TopicPartition,
)
from purgatory_broker.replication.appends import Appends
from purgatory_broker.replication.delayed_partitions import ProducedPartition
from purgatory_broker.replication.record_deletions import DeletedPartition, RecordDeletions
from purgatory_broker.replication.transaction_verifier import (
    TransactionBegin,
    TransactionVerifications,
)

_ACKS_ALL = -1
#: Of every batch of a coordinator: its appends are in order by themselves.
_FIRST_SEQUENCE = 0


@dataclass(slots=True, eq=False)
class _ReplicatedRecords:
    appends: Appends
    actions: ActionQueue
    now_ms: Callable[[], int]

    def _append(
        self,
        key: TopicPartition,
        batch: bytes,
        timeout_ms: int,
        done: Callable[[ErrorCode], None],
        guard: VerificationGuard | None = None,
    ) -> None:
        self._append_batch(key, batch, timeout_ms, lambda produced: done(produced.error), guard)

    def _append_batch(
        self,
        key: TopicPartition,
        batch: bytes,
        timeout_ms: int,
        done: Callable[[ProducedPartition], None],
        guard: VerificationGuard | None = None,
    ) -> None:
        def reply(produced: list[ProducedPartition]) -> None:
            done(produced[0])

        # A timer that ends appends outside of a request: the block runs the wake-ups then.
        with self.actions:
            self.appends.append(
                _ACKS_ALL,
                timeout_ms,
                [(key, batch)],
                reply,
                internal=True,
                guards={} if guard is None else {key: guard},
            )


@dataclass(slots=True, eq=False)
class ReplicatedOffsets(_ReplicatedRecords):
    """The `OffsetsStore` of the group coordinator."""

    verifications: TransactionVerifications
    timeout_ms: int
    #: Called when the group coordinator knows that its records are stored.
    on_stored: Callable[[], None]

    def verify(
        self,
        partition: int,
        commit: TransactionalCommit,
        reply: Callable[[ErrorCode, VerificationGuard | None], None],
    ) -> None:
        key = TopicPartition(OFFSETS_TOPIC, partition)
        begin = TransactionBegin(
            transactional_id=commit.transactional_id,
            producer_id=commit.producer.producer_id,
            producer_epoch=commit.producer.producer_epoch,
            sequences={key: _FIRST_SEQUENCE},
            adds=commit.adds_partition,
        )

        def verified(
            errors: Mapping[TopicPartition, ErrorCode],
            guards: Mapping[TopicPartition, VerificationGuard],
        ) -> None:
            reply(errors.get(key, ErrorCode.NONE), guards.get(key))

        self.verifications.verify(begin, verified)

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode], None],
        producer: Producer | None,
    ) -> None:
        def stored(error: ErrorCode) -> None:
            done(error)
            self.on_stored()

        key = TopicPartition(OFFSETS_TOPIC, partition)
        if producer is None:
            self._append(key, build_batch(records, self.now_ms()), self.timeout_ms, stored)
            return
        batch = build_batch(
            records,
            self.now_ms(),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=_FIRST_SEQUENCE,
            attributes=TRANSACTIONAL,
        )
        self._append(key, batch, self.timeout_ms, stored, producer.guard)


@dataclass(slots=True, eq=False)
class ReplicatedTransactions(_ReplicatedRecords):
    """The `StateStore` of the transaction coordinator."""

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        timeout_ms: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        batch = build_batch(records, self.now_ms())
        self._append(TopicPartition(TRANSACTIONS_TOPIC, partition), batch, timeout_ms, done)


@dataclass(slots=True, eq=False)
class ReplicatedSchemas(_ReplicatedRecords):
    """The appends of the schema registry."""

    def append(
        self,
        key: TopicPartition,
        records: list[tuple[bytes, bytes | None]],
        timeout_ms: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        self._append(key, build_batch(records, self.now_ms()), timeout_ms, done)


@dataclass(slots=True, eq=False)
class ReplicatedShareStates(_ReplicatedRecords):
    """The `ShareStateStore` of the share coordinator."""

    timeout_ms: int
    deletions: RecordDeletions

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode, int], None],
    ) -> None:
        batch = build_batch(records, self.now_ms())
        key = TopicPartition(SHARE_STATE_TOPIC, partition)
        self._append_batch(
            key,
            batch,
            self.timeout_ms,
            lambda produced: done(produced.error, produced.base_offset),
        )

    def delete_before(self, partition: int, offset: int, done: Callable[[], None]) -> None:
        def deleted(results: list[DeletedPartition]) -> None:
            if results[0].error is ErrorCode.NONE:
                done()

        key = TopicPartition(SHARE_STATE_TOPIC, partition)
        with self.actions:
            self.deletions.delete_records(self.timeout_ms, [(key, offset)], deleted)
