"""Delayed operations that end once every partition of their request has a result."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.replica import Replica
from request_purgatory.purgatory.operation import DelayedOperation


@dataclass(slots=True)
class WaitingPartition:
    key: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    #: True while the partition has no result.
    pending: bool = False
    #: The replica that the request changed. If the topic is deleted and created again, another
    #: replica has the same key.
    replica: Replica | None = None


@dataclass(slots=True)
class ProducedPartition(WaitingPartition):
    message: str | None = None
    #: The invalid records: positions in the batch, and error messages.
    record_errors: tuple[tuple[int, str], ...] = ()
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    #: The high watermark to wait for: the offset after the last record.
    required_offset: int = -1


P = TypeVar("P", bound=WaitingPartition)


class DelayedPartitions(DelayedOperation, Generic[P]):
    """Waits until every partition has a result: its condition is met, or its leader is gone.

    The watch keys are the partitions. At the end the operation calls `reply` with the partitions;
    those that are still pending have timed out.
    """

    __slots__ = ("find", "partitions", "reply")

    def __init__(
        self,
        timeout_ms: int,
        partitions: list[P],
        find: Callable[[TopicPartition], Replica | None],
        reply: Callable[[list[P]], None],
    ) -> None:
        super().__init__(timeout_ms)
        self.partitions = partitions
        self.find = find
        self.reply = reply

    @abstractmethod
    def result(self, partition: P, replica: Replica) -> ErrorCode | None:
        """Return the result of a partition that this node still leads; None if it has none yet."""

    def try_complete(self) -> bool:
        is_waiting = False
        for partition in self.partitions:
            if not partition.pending:
                continue
            replica = self.find(partition.key)
            code: ErrorCode | None
            if replica is None or replica is not partition.replica:
                code = self._code_without_replica(partition, replica)
            elif not replica.is_leader:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                code = self.result(partition, replica)
            if code is None:
                is_waiting = True
            else:
                partition.error = code
                partition.pending = False
        return not is_waiting and self.force_complete()

    @staticmethod
    def _code_without_replica(partition: P, present: Replica | None) -> ErrorCode:
        # A reassignment has removed a deposed replica; otherwise the topic was deleted.
        was_deposed = partition.replica is not None and not partition.replica.is_leader
        if present is None and was_deposed:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def on_complete(self) -> None:
        for partition in self.partitions:
            if partition.pending:
                partition.error = ErrorCode.REQUEST_TIMED_OUT
        self.reply(self.partitions)
