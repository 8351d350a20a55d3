"""Deletions of records in the partitions that a node leads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_partitions import DelayedPartitions, WaitingPartition
from purgatory_broker.replication.replica import Replica, ReplicaError
from purgatory_broker.replication.replica_manager import ReplicaManager


@dataclass(slots=True)
class DeletedPartition(WaitingPartition):
    #: The low watermark to wait for.
    required_offset: int = -1
    #: The low watermark that was reached.
    low_watermark: int = -1


class DelayedDeleteRecords(DelayedPartitions[DeletedPartition]):
    """Waits until the least log start offset over the live replicas is the requested one."""

    __slots__ = ("low_watermark",)

    def __init__(
        self,
        timeout_ms: int,
        partitions: list[DeletedPartition],
        find: Callable[[TopicPartition], Replica | None],
        low_watermark: Callable[[Replica], int],
        reply: Callable[[list[DeletedPartition]], None],
    ) -> None:
        super().__init__(timeout_ms, partitions, find, reply)
        self.low_watermark = low_watermark

    def result(self, partition: DeletedPartition, replica: Replica) -> ErrorCode | None:
        low_watermark = self.low_watermark(replica)
        if low_watermark < partition.required_offset:
            return None
        partition.low_watermark = low_watermark
        return ErrorCode.NONE


#: The offset by which a DeleteRecords request means the high watermark.
TO_HIGH_WATERMARK = -1


class RecordDeletions:
    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def delete_records(
        self,
        timeout_ms: int,
        offsets: list[tuple[TopicPartition, int]],
        reply: Callable[[list[DeletedPartition]], None],
    ) -> None:
        """Reply when every live replica has deleted the records, or the timeout has passed."""
        deleted = []
        for key, offset in offsets:
            partition = DeletedPartition(key)
            deleted.append(partition)
            try:
                replica = self._replicas.require_leader(key)
                partition.required_offset = self._delete_before(replica, offset)
                partition.replica = replica
                partition.pending = True
            except (ReplicaError, RecordError) as error:
                partition.error = error.code
        if not any(partition.pending for partition in deleted):
            reply(deleted)
            return
        operation = DelayedDeleteRecords(
            timeout_ms,
            deleted,
            self._replicas.find,
            lambda replica: replica.low_watermark(self._replicas.alive()),
            reply,
        )
        self._replicas.purgatories.delete_records.try_complete_else_watch(
            operation, [partition.key for partition in deleted]
        )

    def _delete_before(self, replica: Replica, offset: int) -> int:
        if offset == TO_HIGH_WATERMARK:
            offset = replica.high_watermark
        if not 0 <= offset <= replica.high_watermark:
            raise ReplicaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset > replica.log.log_start_offset:
            replica.log.advance_log_start_offset(offset)
            self._replicas.notify_partition(replica.key)
        return offset
