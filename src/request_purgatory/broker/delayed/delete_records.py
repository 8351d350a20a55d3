"""A delete-records request: waits until every replica has let go of what is to be deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from request_purgatory.broker.replica import Replica
from request_purgatory.broker.topics import TopicPartition
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.operation import DelayedOperation


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


class DelayedDeleteRecords(DelayedOperation):
    """Waits until each partition's low watermark has reached what was asked for, or its leader is gone.

    Watch keys: the partitions. Call `reply` with what became of each when it ends; what is pending then has timed out.
    """

    __slots__ = ("find", "low_watermark", "partitions", "reply")

    def __init__(
        self,
        timeout_ms: int,
        partitions: list[DeletedPartition],
        find: Callable[[TopicPartition], Replica | None],
        low_watermark: Callable[[Replica], int],
        reply: Callable[[list[DeletedPartition]], None],
    ) -> None:
        super().__init__(timeout_ms)
        self.partitions = partitions
        self.find = find
        self.low_watermark = low_watermark
        self.reply = reply

    def try_complete(self) -> bool:
        waits = False
        for partition in self.partitions:
            if not partition.pending:
                continue
            replica = self.find(partition.key)
            if replica is None or replica is not partition.replica:
                partition.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif not replica.is_leader:
                partition.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                low_watermark = self.low_watermark(replica)
                if low_watermark < partition.required_offset:
                    waits = True
                    continue
                partition.low_watermark = low_watermark
            partition.pending = False
        return not waits and self.force_complete()

    def on_complete(self) -> None:
        for partition in self.partitions:
            if partition.pending:
                partition.error = ErrorCode.REQUEST_TIMED_OUT
        self.reply(self.partitions)
