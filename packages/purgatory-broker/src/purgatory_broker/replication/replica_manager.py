"""The replicas of a node, and the notifications of requests that wait for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.recorder import Recorder
from purgatory_broker.replication.replica import Replica, ReplicaError
from purgatory_broker.settings import ClusterSettings
from request_purgatory.aio import Purgatory

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicaPurgatories:
    produce: Purgatory
    fetch: Purgatory
    delete_records: Purgatory
    share_fetch: Purgatory


@dataclass(slots=True, kw_only=True, eq=False)
class ReplicaManager:
    """The replicas of one node.

    Methods that change a replica defer the notifications of waiting requests to the end of the
    outermost `with actions:` block; callers must be inside one.
    """

    node_id: int
    settings: ClusterSettings
    purgatories: ReplicaPurgatories
    actions: ActionQueue
    now_ms: Callable[[], int]
    partition_exists: Callable[[TopicPartition], bool]
    alive: Callable[[], Collection[int]]
    alter_partition: Callable[[Replica, list[int]], None]
    #: Called with a partition after each change of its high watermark or role.
    on_change: Callable[[TopicPartition], None]
    recorder: Recorder | None = None
    replicas: dict[TopicPartition, Replica] = field(default_factory=dict)
    #: The number of changes so far of what a fetch reads; see DelayedFetch. Until the next one, the
    #: same fetch has the same result.
    change_count: int = 0
    #: Whether the node stops; it serves no more requests of followers then.
    is_closed: bool = False

    # -- lookup

    def find(self, key: TopicPartition) -> Replica | None:
        return self.replicas.get(key)

    def require_leader(
        self, key: TopicPartition, leader_epoch: int = -1, *, or_follower: bool = False
    ) -> Replica:
        """Return the replica of a partition that this node leads; an epoch of -1 is any."""
        replica = self.replicas.get(key)
        if replica is None:
            exists = self.partition_exists(key)
            raise ReplicaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        replica.require_leader(leader_epoch, or_follower=or_follower)
        return replica

    # -- changes

    def appended(self, replica: Replica, size_bytes: int) -> None:
        """Notify waiting requests of an append of `size_bytes` to a leader's log."""
        if self.recorder is not None:
            self.recorder.appended(replica, size_bytes)
        # The log's end has moved, for followers. The high watermark, for consumers, moves now only
        # if no other replica is in sync.
        self.change_count += 1
        if not self.advance_high_watermark(replica):
            self._notify(self.purgatories.fetch, replica.key)

    def advance_high_watermark(self, replica: Replica) -> bool:
        """Advance a leader's high watermark as far as possible, and notify waiting requests."""
        before = replica.high_watermark
        stable_before = before if self.recorder is None else replica.last_stable_offset
        has_advanced = replica.advance_high_watermark(
            self.now_ms(), self.settings.replica_lag_time_max_ms, self.alive()
        )
        if has_advanced:
            if self.recorder is not None:
                self.recorder.high_watermark(
                    replica, replica.log.bytes_between(before, replica.high_watermark)
                )
                stable = replica.last_stable_offset
                if stable > stable_before:
                    size = replica.log.bytes_between(stable_before, stable)
                    self.recorder.last_stable_offset(replica, size)
            self.notify_partition(replica.key)
        return has_advanced

    def notify_partition(self, key: TopicPartition) -> None:
        """Try every request that waits for a partition, when the outermost block ends."""
        self.change_count += 1
        self._notify(self.purgatories.produce, key)
        self._notify(self.purgatories.fetch, key)
        self._notify(self.purgatories.delete_records, key)
        self._notify(self.purgatories.share_fetch, key)
        self.on_change(key)

    def _notify(self, purgatory: Purgatory, key: TopicPartition) -> None:
        # A request that begins to wait later has seen the change when it was first tried.
        if purgatory.num_watchers(key):
            self.actions.add(partial(purgatory.notify, key))

    def shrink_isr(self) -> None:
        now_ms, max_lag_ms = self.now_ms(), self.settings.replica_lag_time_max_ms
        for replica in self.replicas.values():
            if not replica.is_leader or replica.pending_isr is not None:
                continue
            lagging = replica.out_of_sync_followers(now_ms, max_lag_ms)
            if lagging:
                logger.info(
                    "%s: removing lagging followers %s from the in-sync replicas",
                    replica.key,
                    lagging,
                )
                self.alter_partition(replica, [node for node in replica.isr if node not in lagging])
