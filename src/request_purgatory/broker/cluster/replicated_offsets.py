"""Where a node's group coordinator writes: the partitions of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from request_purgatory.broker.log import PartitionLog, build
from request_purgatory.broker.metadata.topics import OFFSETS_TOPIC, TopicPartition
from request_purgatory.broker.replication.delayed_produce import ProducedPartition
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.broker.replication.replica_manager import ReplicaManager

_ALL = -1


class ReplicatedOffsets:
    """Appends records of groups with acks=all, as Kafka's coordinator does.

    In a purgatory until they are replicated.
    """

    def __init__(
        self, replicas: ReplicaManager, timeout_ms: int, now_ms: Callable[[], int]
    ) -> None:
        self._replicas = replicas
        self._timeout_ms = timeout_ms
        self._now_ms = now_ms

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Append records and call `done` once they are replicated, or with the error if they are not."""

        def reply(produced: list[ProducedPartition]) -> None:
            done(produced[0].error)

        batch = build(records, self._now_ms())
        key = TopicPartition(OFFSETS_TOPIC, partition)
        self._replicas.append(_ALL, self._timeout_ms, [(key, batch)], reply, internal=True)


def stored_records(log: PartitionLog) -> Iterator[tuple[bytes, bytes | None]]:
    """The keys and values that a partition of `__consumer_offsets` has, from its start to its end."""
    for record in log.records():
        if record.key is not None:
            yield record.key, record.value
