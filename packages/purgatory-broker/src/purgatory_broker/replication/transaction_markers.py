"""Appends the markers that end transactions, in the partitions that a node leads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import UNSET
from purgatory_broker.log.control_batch import marker_batch
from purgatory_broker.log.transaction_marker import TransactionMarker
from purgatory_broker.metadata.topics import OFFSETS_TOPIC, TopicPartition
from purgatory_broker.replication.appends import Appends
from purgatory_broker.replication.delayed_partitions import ProducedPartition
from purgatory_broker.replication.replica_manager import ReplicaManager

_ACKS_ALL = -1
#: Kafka's `request.timeout.ms`: how long a marker waits for the in-sync replicas.
_TIMEOUT_MS = 30_000

#: The partition of the offsets topic, the producer's id, and whether the transaction is committed.
OnOffsetsMarker: TypeAlias = Callable[[int, int, bool], None]


class TransactionMarkers:
    def __init__(
        self,
        replicas: ReplicaManager,
        appends: Appends,
        wall_ms: Callable[[], int],
        on_offsets_marker: OnOffsetsMarker,
    ) -> None:
        """Create the markers of a node.

        `on_offsets_marker` is called when a marker is on the in-sync replicas of a partition of the
        offsets topic, before the reply.
        """
        self._replicas = replicas
        self._appends = appends
        self._wall_ms = wall_ms
        self._on_offsets_marker = on_offsets_marker

    def write(
        self,
        marker: TransactionMarker,
        partitions: Sequence[TopicPartition],
        reply: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Append a marker with acks=all, and reply once with the result of each partition."""
        if UNSET in (marker.producer_id, marker.producer_epoch):
            reply(dict.fromkeys(partitions, ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        errors = {
            key: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for key in partitions
            if self._replicas.find(key) is None
        }
        batch = marker_batch(marker, self._wall_ms())
        records: list[tuple[TopicPartition, bytes | memoryview | None]] = [
            (key, batch) for key in dict.fromkeys(partitions) if key not in errors
        ]

        def appended(produced: list[ProducedPartition]) -> None:
            for result in produced:
                errors[result.key] = result.error
                if result.key.topic == OFFSETS_TOPIC and result.error is ErrorCode.NONE:
                    partition = result.key.partition
                    self._on_offsets_marker(partition, marker.producer_id, marker.is_commit)
            reply(errors)

        with self._replicas.actions:
            self._appends.append(_ACKS_ALL, _TIMEOUT_MS, records, appended, internal=True)
