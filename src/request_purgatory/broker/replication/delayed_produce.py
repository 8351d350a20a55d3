"""A produce request with acks=all: waits until the in-sync replicas have its records."""

from __future__ import annotations

from dataclasses import dataclass

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_partitions import DelayedPartitions
from request_purgatory.broker.replication.replica import Replica
from request_purgatory.broker.wire.error_code import ErrorCode


@dataclass(slots=True)
class ProducedPartition:
    """What became of one partition of a produce request."""

    key: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    #: The records at fault, by their place in the batch, and what is wrong with each.
    faults: tuple[tuple[int, str], ...] = ()
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    #: The high watermark that is waited for: one beyond the last record.
    required_offset: int = -1
    #: True while it is waited for; and the replica that it was appended to, since one of the same
    #: name may take its place.
    pending: bool = False
    replica: Replica | None = None


class DelayedProduce(DelayedPartitions[ProducedPartition]):
    """Waits until each partition's high watermark has reached what was appended, or its leader is gone."""

    __slots__ = ()

    def settle(self, partition: ProducedPartition, replica: Replica) -> ErrorCode | None:
        """Once the high watermark is reached: NONE, or that too few have it."""
        if replica.high_watermark < partition.required_offset:
            return None
        if not replica.may_have_enough_replicas:
            # It is in the log, and too few have it: the client may send it once more, or not.
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE
