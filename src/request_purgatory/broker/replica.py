"""A node's replica of a partition: its log, and what it knows of the others as the leader or as a follower."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from request_purgatory.broker.topics import NO_LEADER, Partition, TopicPartition
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.broker.log import PartitionLog

logger = logging.getLogger(__name__)

UNKNOWN_OFFSET = -1


class ReplicaError(Exception):
    """A request that this replica refuses, with Kafka's error code."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code


class FollowerState:
    """What a leader knows of a follower, from its fetches. Times are whole milliseconds."""

    __slots__ = ("caught_up_ms", "end_offset", "fetched_ms", "leader_end_offset", "log_start_offset")

    def __init__(self, caught_up_ms: int) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        #: When it last had everything that the leader had then.
        self.caught_up_ms = caught_up_ms
        #: When it last fetched, and how far the leader's log went then.
        self.fetched_ms = 0
        self.leader_end_offset = 0

    def fetched(self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """A fetch came, for what follows `offset`: all before it the follower has."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset:
            # Not all there is now, but all there was at its fetch before this: a steady writer leaves nobody behind.
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
    )

    def __init__(self, node_id: int, key: TopicPartition, log: PartitionLog, high_watermark: int) -> None:
        self.node_id = node_id
        self.key = key
        self.log = log
        #: Below it every in-sync replica has all; consumers see no further.
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.end_offset)
        self.is_leader = False
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: list[int] = []
        self.isr: list[int] = []
        self.min_insync_replicas = 1
        self.followers: dict[int, FollowerState] = {}

    # -- roles

    def apply(self, partition: Partition, min_insync_replicas: int, now_ms: int) -> bool:
        """Take up what the controller says of the partition; True if the leader or its epoch is another now."""
        self.min_insync_replicas = min(min_insync_replicas, len(partition.replicas))
        if partition.partition_epoch < self.partition_epoch:
            return False
        moved = partition.leader_epoch != self.leader_epoch or partition.leader != self.leader
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
            self.followers = {node: FollowerState(now_ms) for node in self.replicas if node != self.node_id}
        return True

    def require_leader(self, leader_epoch: int = -1, *, or_follower: bool = False) -> None:
        """Refuse what only a leader may do, and what is meant for the leader of another epoch.

        Raises:
            ReplicaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if leader_epoch >= 0 and leader_epoch != self.leader_epoch:
            older = leader_epoch < self.leader_epoch
            raise ReplicaError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not self.is_leader and not or_follower:
            raise ReplicaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- as a leader

    @property
    def has_enough_replicas(self) -> bool:
        """True if as many replicas are in sync as acks=all asks for."""
        return len(self.isr) >= self.min_insync_replicas

    def advance_high_watermark(self) -> bool:
        """The least log end over the in-sync replicas; True if the high watermark grew.

        It stands still while fewer are in sync than `min.insync.replicas`, as in Kafka since KIP-966.
        """
        if not self.is_leader or not self.has_enough_replicas:
            return False
        least = self.log.end_offset
        for node in self.isr:
            if node != self.node_id:
                follower = self.followers.get(node)
                least = min(least, UNKNOWN_OFFSET if follower is None else follower.end_offset)
        if least <= self.high_watermark:
            return False
        self.high_watermark = least
        return True

    def lagging(self, now_ms: int, max_lag_ms: int) -> list[int]:
        """The in-sync followers that have been behind for longer than `max_lag_ms`."""
        end = self.log.end_offset
        return [
            node for node in self.isr if node != self.node_id and not self.followers[node].is_caught_up(end, now_ms, max_lag_ms)
        ]

    def may_join(self, node: int) -> bool:
        """True if a follower is not in sync and has caught up: it has all that consumers see, and some of this epoch's start."""
        if node in self.isr or node not in self.followers:
            return False
        end = self.followers[node].end_offset
        return end >= self.high_watermark and end >= self.epoch_start

    @property
    def epoch_start(self) -> int:
        """Where this leader's epoch begins in its log."""
        return self.log.epoch_start(self.leader_epoch)

    @property
    def low_watermark(self) -> int:
        """Below it no replica has anything."""
        known = [state.log_start_offset for state in self.followers.values()]
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
            logger.info("node %d cuts %s from %d to %d", self.node_id, self.key, self.log.end_offset, offset)
        # Even at the end: an epoch in which this replica led and appended nothing is not the leader's either.
        self.log.truncate_to(offset)
        self.high_watermark = min(self.high_watermark, self.log.end_offset)

    def check(self) -> None:
        """Assert every invariant that holds between events."""
        assert self.log.log_start_offset <= self.high_watermark <= self.log.end_offset, (
            self.key,
            self.log.log_start_offset,
            self.high_watermark,
            self.log.end_offset,
        )
        assert self.is_leader == (self.leader == self.node_id)
        if self.is_leader and self.has_enough_replicas:
            for node in self.isr:
                if node != self.node_id and self.followers[node].end_offset >= 0:
                    assert self.followers[node].end_offset >= self.high_watermark or node not in self.isr
        self.log.check()
