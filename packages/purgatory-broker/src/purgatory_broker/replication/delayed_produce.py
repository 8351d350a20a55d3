"""The delayed operation of a produce request with acks=all: wait for the in-sync replicas."""

from __future__ import annotations

from dataclasses import dataclass

from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_partitions import DelayedPartitions
from purgatory_broker.replication.replica import Replica
from purgatory_broker.wire.error_code import ErrorCode


@dataclass(slots=True)
class ProducedPartition:
    key: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    #: The invalid records: positions in the batch, and error messages.
    record_errors: tuple[tuple[int, str], ...] = ()
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    #: The high watermark to wait for: the offset after the last record.
    required_offset: int = -1
    pending: bool = False
    #: The replica that the records were appended to. If the topic is deleted and created again,
    #: another replica has the same key.
    replica: Replica | None = None


class DelayedProduce(DelayedPartitions[ProducedPartition]):
    """Waits until each partition's high watermark passes the records, or its leader is gone."""

    __slots__ = ()

    def result(self, partition: ProducedPartition, replica: Replica) -> ErrorCode | None:
        if replica.high_watermark < partition.required_offset:
            return None
        if not replica.may_have_enough_replicas:
            # The records are in the log, but the in-sync replicas have become fewer than
            # `min.insync.replicas` since. The client decides whether to send them again.
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE
