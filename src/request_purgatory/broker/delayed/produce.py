"""A produce request with acks=all: waits until the in-sync replicas have its records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from request_purgatory.broker.replica import Replica
from request_purgatory.broker.topics import TopicPartition
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.operation import DelayedOperation


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
    #: True while it is waited for; and the replica that it was appended to, since one of the same name may take its place.
    pending: bool = False
    replica: Replica | None = None


class DelayedProduce(DelayedOperation):
    """Waits until each partition's high watermark has reached what was appended, or its leader is gone.

    Watch keys: the partitions. Call `reply` with what became of each when it ends; what is pending then has timed out.
    """

    __slots__ = ("find", "partitions", "reply")

    def __init__(
        self,
        timeout_ms: int,
        partitions: list[ProducedPartition],
        find: Callable[[TopicPartition], Replica | None],
        reply: Callable[[list[ProducedPartition]], None],
    ) -> None:
        super().__init__(timeout_ms)
        self.partitions = partitions
        self.find = find
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
            elif replica.high_watermark < partition.required_offset:
                waits = True
                continue
            elif not replica.may_have_enough_replicas:
                # It is in the log, and too few have it: the client may send it once more, or not.
                partition.error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            partition.pending = False
        return not waits and self.force_complete()

    def on_complete(self) -> None:
        for partition in self.partitions:
            if partition.pending:
                partition.error = ErrorCode.REQUEST_TIMED_OUT
        self.reply(self.partitions)
