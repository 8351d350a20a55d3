"""A node's replica of a partition: its log, and its state as a leader or as a follower."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from purgatory_broker._wire.error_code import CodedError, ErrorCode
from purgatory_broker.metadata.topics import NO_LEADER, Partition, TopicPartition

if TYPE_CHECKING:
    from purgatory_broker.log.log import PartitionLog

logger = logging.getLogger(__name__)

UNKNOWN_OFFSET = -1
#: The `caught_up_ms` of a follower that was not in sync when this node became the leader.
_NEVER_MS = -(2**62)


class ReplicaError(CodedError):
    """A replica refuses a request."""


@dataclass(slots=True, eq=False)
class FollowerState:
    """A leader's view of a follower, from its fetch requests. Times are whole milliseconds."""

    #: The last time at which it had every record that the leader had.
    caught_up_ms: int = _NEVER_MS
    end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    #: The time of its last fetch, and the end of the leader's log at that time.
    fetched_ms: int = 0
    leader_end_offset: int = 0

    def update(
        self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int
    ) -> None:
        """As Kafka's Replica.updateFetchState: it has every record before `offset`."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset:
            # It has every record that there was at its previous fetch. So a follower that keeps up
            # with a steady producer stays in sync, although new records arrive before each fetch.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset = leader_end_offset
        self.fetched_ms = now_ms

    def fetch_again(self, now_ms: int) -> None:
        """Update the state from a fetch like the last one, from the end of the leader's log."""
        self.caught_up_ms = max(self.caught_up_ms, now_ms)
        self.fetched_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= max_lag_ms


@dataclass(slots=True, eq=False)
class Replica:
    """One partition on one node: neither leader nor follower, until `apply`.

    Methods that move an offset return True if it moved; the caller then notifies the delayed
    operations that wait for it.
    """

    node_id: int
    key: TopicPartition
    #: A topic that is deleted and created again has the same name but another id.
    topic_id: uuid.UUID
    log: PartitionLog
    #: Every in-sync replica has all records below; consumers read no further.
    high_watermark: int
    is_leader: bool = False
    leader: int = NO_LEADER
    leader_epoch: int = -1
    partition_epoch: int = -1
    replicas: list[int] = field(default_factory=list)
    isr: list[int] = field(default_factory=list)
    #: The in-sync replicas in a pending AlterPartition request of this leader; None if there is no
    #: such request.
    pending_isr: list[int] | None = None
    min_insync_replicas: int = 1
    followers: dict[int, FollowerState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.update_high_watermark(self.high_watermark)

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which a read_committed consumer reads.

        Before it, every transaction has a marker that all in-sync replicas have.
        """
        unstable = self.log.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    # -- roles

    def apply(self, partition: Partition, min_insync_replicas: int, now_ms: int) -> bool:
        """Become leader or follower, as the controller's state of the partition says.

        A state older than the present one changes nothing. Returns True if the leader or the leader
        epoch has changed.
        """
        self.min_insync_replicas = min(min_insync_replicas, len(partition.replicas))
        if partition.partition_epoch < self.partition_epoch:
            return False
        moved = partition.leader_epoch != self.leader_epoch or partition.leader != self.leader
        if partition.partition_epoch > self.partition_epoch:
            # The pending request was granted, or will be refused: it is for an earlier state.
            self.pending_isr = None
        self.partition_epoch = partition.partition_epoch
        self.replicas = list(partition.replicas)
        self.isr = list(partition.isr)
        if not moved:
            if self.is_leader:
                for node in self.replicas:
                    # A reassignment adds the node.
                    if node != self.node_id and node not in self.followers:
                        self.followers[node] = FollowerState()
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
        """Raise ReplicaError unless this replica leads in the given epoch; -1 is any."""
        if leader_epoch >= 0 and leader_epoch != self.leader_epoch:
            older = leader_epoch < self.leader_epoch
            raise ReplicaError(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        if not self.is_leader and not or_follower:
            raise ReplicaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- leader

    @property
    def has_enough_replicas(self) -> bool:
        """True if at least `min.insync.replicas` are in sync, as acks=all requires."""
        return len(self.isr) >= self.min_insync_replicas

    @property
    def maximal_isr(self) -> set[int]:
        """The in-sync replicas, and those that this leader has requested to add (KIP-497).

        The controller may have added a follower, and may elect it leader, before this node is
        notified. So the high watermark waits for the follower from the moment of the request.
        """
        return set(self.isr) if self.pending_isr is None else {*self.isr, *self.pending_isr}

    @property
    def may_have_enough_replicas(self) -> bool:
        """`has_enough_replicas`, counting the replicas that this leader has requested to add."""
        return len(self.maximal_isr) >= self.min_insync_replicas

    def advance_high_watermark(self, now_ms: int, max_lag_ms: int, alive: Collection[int]) -> bool:
        """Raise the high watermark to the least log end over the maximal in-sync replicas.

        It does not advance while fewer than `min.insync.replicas` are in sync, as in Kafka since
        KIP-966. As in Kafka, it also waits for live followers that are caught up but not yet in
        sync: otherwise a steady producer could keep them from ever reaching it and joining.

        Example: the leader's log ends at 10, follower 1 is in sync and ends at 8, follower 2 is not
        in sync, lags and ends at 3. The high watermark becomes 8.
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
        if self.log.transactions.first_offset is not None:
            self.log.replicated(least)
        return True

    def out_of_sync_followers(self, now_ms: int, max_lag_ms: int) -> list[int]:
        end = self.log.end_offset
        return [
            node
            for node in self.isr
            if node != self.node_id
            and not self.followers[node].is_caught_up(end, now_ms, max_lag_ms)
        ]

    def can_join_isr(self, node: int) -> bool:
        # It must reach the high watermark, and the start of this leader's epoch.
        if node in self.isr or node not in self.followers:
            return False
        epoch_start = self.log.epoch_start_offset(self.leader_epoch)
        return self.followers[node].end_offset >= max(self.high_watermark, epoch_start)

    def low_watermark(self, alive: Collection[int]) -> int:
        """As in Kafka, dead replicas do not count; they delete the records on return."""
        known = [state.log_start_offset for node, state in self.followers.items() if node in alive]
        known.append(self.log.log_start_offset)
        return min(known)

    # -- follower

    def update_high_watermark(self, high_watermark: int) -> bool:
        """Take over the leader's high watermark, limited to this log; True if it changed."""
        limited = max(min(high_watermark, self.log.end_offset), self.log.log_start_offset)
        changed = limited != self.high_watermark
        self.high_watermark = limited
        if self.log.transactions.first_offset is not None:
            self.log.replicated(limited)
        return changed

    def truncate_to(self, offset: int) -> None:
        if offset < self.log.end_offset:
            logger.info(
                "node %d truncates %s from %d to %d",
                self.node_id,
                self.key,
                self.log.end_offset,
                offset,
            )
        # Even if no record is removed: the log may have an epoch in which this replica was leader
        # and appended nothing. The leader does not have that epoch either.
        self.log.truncate_to(offset)
        self.high_watermark = min(self.high_watermark, self.log.end_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records; the log continues at `offset`, where the leader's log begins."""
        self.log.truncate_fully_and_start_at(offset)
        self.high_watermark = offset

    def check(self) -> None:
        log_start, log_end = self.log.log_start_offset, self.log.end_offset
        state = (self, log_start, log_end)
        assert log_start <= self.high_watermark <= log_end, state
        assert self.is_leader == (self.leader == self.node_id), state
        if self.is_leader:
            assert self.node_id in self.isr, state
            for node in self.maximal_isr - {self.node_id}:
                end = self.followers[node].end_offset
                assert end == UNKNOWN_OFFSET or end >= self.high_watermark, (node, end, state)
        else:
            assert self.pending_isr is None, state
        self.log.check()
