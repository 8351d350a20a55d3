"""The delayed operation of a delete-records request: wait for every replica to delete them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_partitions import DelayedPartitions
from purgatory_broker.replication.replica import Replica
from purgatory_broker.wire.error_code import ErrorCode


@dataclass(slots=True)
class DeletedPartition:
    """The result of a delete-records request for one partition."""

    key: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    #: The low watermark to wait for.
    required_offset: int = -1
    #: The low watermark that was reached.
    low_watermark: int = -1
    pending: bool = False
    replica: Replica | None = None


class DelayedDeleteRecords(DelayedPartitions[DeletedPartition]):
    """Waits until each partition's low watermark reaches the requested offset.

    The low watermark is the least log start offset over the live replicas.
    """

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
        """Return NONE once every live replica has deleted the records; None before."""
        low_watermark = self.low_watermark(replica)
        if low_watermark < partition.required_offset:
            return None
        partition.low_watermark = low_watermark
        return ErrorCode.NONE
