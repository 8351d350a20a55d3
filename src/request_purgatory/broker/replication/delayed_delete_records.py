"""A delete-records request: waits until every replica has let go of what is to be deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_partitions import DelayedPartitions
from request_purgatory.broker.replication.replica import Replica
from request_purgatory.broker.wire.error_code import ErrorCode


@dataclass(slots=True)
class DeletedPartition:
    """What became of one partition of a delete-records request."""

    key: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    #: The low watermark that is waited for, and the one that was reached.
    required_offset: int = -1
    low_watermark: int = -1
    pending: bool = False
    replica: Replica | None = None


class DelayedDeleteRecords(DelayedPartitions[DeletedPartition]):
    """Waits until each partition's low watermark has reached what was asked for, or its leader is gone."""

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

    def settle(self, partition: DeletedPartition, replica: Replica) -> ErrorCode | None:
        """NONE once every replica has let go of what is below."""
        low_watermark = self.low_watermark(replica)
        if low_watermark < partition.required_offset:
            return None
        partition.low_watermark = low_watermark
        return ErrorCode.NONE
