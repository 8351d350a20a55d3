"""The records of coordinators, appended with acks=all as Kafka's coordinators do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.group_messages import Producer
from purgatory_broker.log.record import build_batch
from purgatory_broker.metadata.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from purgatory_broker.replication.appends import Appends
from purgatory_broker.replication.delayed_partitions import ProducedPartition

_ACKS_ALL = -1


@dataclass(slots=True, eq=False)
class _ReplicatedRecords:
    appends: Appends
    actions: ActionQueue
    now_ms: Callable[[], int]

    def _append(
        self, key: TopicPartition, batch: bytes, timeout_ms: int, done: Callable[[ErrorCode], None]
    ) -> None:
        def reply(produced: list[ProducedPartition]) -> None:
            done(produced[0].error)

        # A timer that ends appends outside of a request: the block runs the wake-ups then.
        with self.actions:
            self.appends.append(_ACKS_ALL, timeout_ms, [(key, batch)], reply, internal=True)


@dataclass(slots=True, eq=False)
class ReplicatedOffsets(_ReplicatedRecords):
    """The `OffsetsStore` of the group coordinator."""

    timeout_ms: int

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode], None],
        producer: Producer | None,
    ) -> None:
        batch = build_batch(records, self.now_ms())
        self._append(TopicPartition(OFFSETS_TOPIC, partition), batch, self.timeout_ms, done)


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
