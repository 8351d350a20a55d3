"""Requests that are answered once each of their partitions is settled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.replica import Replica
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.purgatory.operation import DelayedOperation


class WaitingPartition(Protocol):
    """What becomes of one partition of a request."""

    key: TopicPartition
    error: ErrorCode
    #: True while it is not settled.
    pending: bool
    #: The replica that the request changed.
    replica: Replica | None


P = TypeVar("P", bound=WaitingPartition)


class DelayedPartitions(DelayedOperation, Generic[P]):
    """Waits until each partition is settled, or its leader is gone.

    Watch keys: the partitions. Calls `reply` with what became of each when it ends; what is pending
    then has timed out.
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
    def settle(self, partition: P, replica: Replica) -> ErrorCode | None:
        """With what a partition is settled that this node still leads; None while it is not."""

    def try_complete(self) -> bool:
        waits = False
        for partition in self.partitions:
            if not partition.pending:
                continue
            replica = self.find(partition.key)
            code: ErrorCode | None
            if replica is None or replica is not partition.replica:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif not replica.is_leader:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                code = self.settle(partition, replica)
            if code is None:
                waits = True
            else:
                partition.error = code
                partition.pending = False
        return not waits and self.force_complete()

    def on_complete(self) -> None:
        for partition in self.partitions:
            if partition.pending:
                partition.error = ErrorCode.REQUEST_TIMED_OUT
        self.reply(self.partitions)
