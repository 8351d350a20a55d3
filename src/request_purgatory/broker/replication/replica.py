"""A node's replica of a partition.

Its log, and what it knows of the others as the leader or as a follower.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection
from typing import TYPE_CHECKING

from request_purgatory.broker.metadata.topics import NO_LEADER, Partition, TopicPartition
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.broker.log import PartitionLog

logger = logging.getLogger(__name__)

UNKNOWN_OFFSET = -1
#: Of a follower that was not in sync when this node became the leader: it was caught up so long ago
#: that it counts as never.
_LONG_AGO_MS = -(2**62)


class ReplicaError(Exception):
    """A request that this replica refuses, with Kafka's error code."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code


class FollowerState:
    """What a leader knows of a follower, from its fetches. Times are whole milliseconds."""

    __slots__ = (
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "leader_end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_ms: int = _LONG_AGO_MS) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        #: When it last had everything that the leader had then.
        self.caught_up_ms = caught_up_ms
        #: When it last fetched, and how far the leader's log went then.
        self.fetched_ms = 0
        self.leader_end_offset = 0

    def fetched(
        self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int
    ) -> None:
        """A fetch came, for what follows `offset`: all before it the follower has."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset:
            # Not all there is now, but all there was at its fetch before this: a steady writer
            # leaves nobody behind.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset = leader_end_offset
        self.fetched_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """True if it has all, or had all at some moment of the last `max_lag_ms`."""
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= max_lag_ms


class Replica:
    """One partition on one node.

    The node calls it and tells whoever waits: a method that moves an offset returns whether it did.
    """

    __slots__ = (
        "followers",
        "high_watermark",
        "is_leader",
        "isr",
        "key",
        "leader",
        "leader_epoch",
        "log",
        "min_insync_replicas",
        "node_id",
        "partition_epoch",
        "replicas",
        "topic_id",
        "wished_isr",
    )

    def __init__(
        self,
        node_id: int,
        key: TopicPartition,
        topic_id: uuid.UUID,
        log: PartitionLog,
        high_watermark: int,
    ) -> None:
        self.node_id = node_id
        self.key = key
        #: A topic that is deleted and made again has the same name, and nothing else of the old
        #: one.
        self.topic_id = topic_id
        self.log = log
        #: Below it every in-sync replica has all; consumers see no further.
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.end_offset)
        self.is_leader = False
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: list[int] = []
        self.isr: list[int] = []
        #: What a leader has asked the controller for and has not heard back of; None where there is
        #: nothing.
        self.wished_isr: list[int] | None = None
        self.min_insync_replicas = 1
        self.followers: dict[int, FollowerState] = {}

    # -- roles

    def apply(self, partition: Partition, min_insync_replicas: int, now_ms: int) -> bool:
        """Take up what the controller says of the partition.

        True if the leader or its epoch is another now.
        """
        self.min_insync_replicas = min(min_insync_replicas, len(partition.replicas))
        if partition.partition_epoch < self.partition_epoch:
            return False
        moved = partition.leader_epoch != self.leader_epoch or partition.leader != self.leader
        if partition.partition_epoch > self.partition_epoch:
            # What was wished for is in it, or will be refused, since it was meant for an earlier
            # state.
            self.wished_isr = None
        self.partition_epoch = partition.partition_epoch
        self.replicas = list(partition.replicas)
        self.isr = list(partition.isr)
        if not moved:
            return False
        self.leader = partition.leader
        self.leader_epoch = partition.leader_epoch
        self.is_leader = partition.leader == self.node_id
        self.followers = {}
        if self.is_leader:
            self.log.begin_epoch(self.leader_epoch)
            for node in self.replicas:
                if node != self.node_id:
                    self.followers[node] = (
                        FollowerState(now_ms) if node in self.isr else FollowerState()
                    )
        return True

    def require_leader(self, leader_epoch: int = -1, *, or_follower: bool = False) -> None:
        """Refuse what only a leader may do, and what is meant for the leader of another epoch.

        Raises:
            ReplicaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if leader_epoch >= 0 and leader_epoch != self.leader_epoch:
            older = leader_epoch < self.leader_epoch
            raise ReplicaError(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        if not self.is_leader and not or_follower:
            raise ReplicaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- as a leader

    @property
    def has_enough_replicas(self) -> bool:
        """True if as many replicas are in sync as acks=all asks for."""
        return len(self.isr) >= self.min_insync_replicas

    @property
    def maximal_isr(self) -> set[int]:
        """The nodes that may be in sync as far as this leader knows: those that are, and those that it has asked to be.

        The controller may have let a follower in, and may make it the leader, before this node
        hears of it. So what a follower has to have is reckoned with it from the moment at which it
        is asked for (KIP-497).
        """
        return set(self.isr) if self.wished_isr is None else {*self.isr, *self.wished_isr}

    @property
    def may_have_enough_replicas(self) -> bool:
        """`has_enough_replicas`, with those that this leader has asked for."""
        return len(self.maximal_isr) >= self.min_insync_replicas

    def advance_high_watermark(self, now_ms: int, max_lag_ms: int, alive: Collection[int]) -> bool:
        """The least log end over the in-sync replicas, and those about to be; True if the high watermark grew.

        It stands still while fewer are in sync than `min.insync.replicas`, as in Kafka since
        KIP-966. A live follower that is caught up and not in sync yet is waited for too: else it
        could never join where records come in steadily.
        """
        if not self.is_leader or not self.has_enough_replicas:
            return False
        end = least = self.log.end_offset
        maximal = self.maximal_isr
        for node, follower in self.followers.items():
            if follower.end_offset < least and (
                node in maximal
                or (node in alive and follower.is_caught_up(end, now_ms, max_lag_ms))
            ):
                least = follower.end_offset
        if least <= self.high_watermark:
            return False
        self.high_watermark = least
        return True

    def lagging(self, now_ms: int, max_lag_ms: int) -> list[int]:
        """The in-sync followers that have been behind for longer than `max_lag_ms`."""
        end = self.log.end_offset
        return [
            node
            for node in self.isr
            if node != self.node_id
            and not self.followers[node].is_caught_up(end, now_ms, max_lag_ms)
        ]

    def may_join(self, node: int) -> bool:
        """True if a follower is not in sync and has caught up.

        It has all that consumers see, and some of this epoch's start.
        """
        if node in self.isr or node not in self.followers:
            return False
        end = self.followers[node].end_offset
        return end >= self.high_watermark and end >= self.epoch_start

    @property
    def epoch_start(self) -> int:
        """Where this leader's epoch begins in its log."""
        return self.log.epoch_start(self.leader_epoch)

    def low_watermark(self, alive: Collection[int]) -> int:
        """Below it no replica has anything.

        Who is not alive does not count, as in Kafka, and learns of it later.
        """
        known = [state.log_start_offset for node, state in self.followers.items() if node in alive]
        return min([self.log.log_start_offset, *known])

    # -- as a follower

    def follow(self, high_watermark: int) -> bool:
        """Take the leader's high watermark, as far as the log goes; True if it changed."""
        known = max(min(high_watermark, self.log.end_offset), self.log.log_start_offset)
        changed = known != self.high_watermark
        self.high_watermark = known
        return changed

    def truncate(self, offset: int) -> None:
        """Cut off what the leader does not have."""
        if offset < self.log.end_offset:
            logger.info(
                "node %d cuts %s from %d to %d", self.node_id, self.key, self.log.end_offset, offset
            )
        # Even at the end: an epoch in which this replica led and appended nothing is not the
        # leader's either.
        self.log.truncate_to(offset)
        self.high_watermark = min(self.high_watermark, self.log.end_offset)

    def start_at(self, offset: int) -> None:
        """Drop all records, and go on where the leader's log begins."""
        self.log.truncate_fully(offset)
        self.high_watermark = offset

    def check(self) -> None:
        """Assert every invariant that holds between events."""
        assert self.log.log_start_offset <= self.high_watermark <= self.log.end_offset, (
            self.key,
            self.log.log_start_offset,
            self.high_watermark,
            self.log.end_offset,
        )
        assert self.is_leader == (self.leader == self.node_id), (
            self.key,
            self.node_id,
            self.leader,
        )
        if self.is_leader:
            assert self.node_id in self.isr, (self.key, self.node_id, self.isr)
            for node in self.maximal_isr - {self.node_id}:
                end = self.followers[node].end_offset
                assert end == UNKNOWN_OFFSET or end >= self.high_watermark, (
                    self.key,
                    node,
                    end,
                    self.high_watermark,
                )
        else:
            assert self.wished_isr is None, (self.key, self.wished_isr)
        self.log.check()
