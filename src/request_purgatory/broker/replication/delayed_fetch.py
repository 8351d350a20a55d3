"""A fetch request: waits until there is as much to read as it asks for."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.replica import Replica
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.purgatory.operation import DelayedOperation

if TYPE_CHECKING:
    from request_purgatory.broker.replication.replica_metrics import FetchExpirations


class FetchTarget(NamedTuple):
    """A partition that a fetch asks for, and from where on."""

    key: TopicPartition
    offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    #: Of the follower's log; -1 for consumers.
    log_start_offset: int = -1
    #: Of followers: a topic that was deleted and made again has the same name, and may be in the
    #: same epoch.
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class FetchParams:
    """What a fetch asks for as a whole."""

    #: The node that fetches as a follower; below 0 for consumers.
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    #: False where followers may answer too, with what they know to be replicated (KIP-392).
    leader_only: bool = True

    @property
    def is_follower(self) -> bool:
        """True if the log's end is what is seen, not the high watermark."""
        return self.replica_id >= 0


@dataclass(slots=True)
class FetchedPartition:
    """What was read of one partition."""

    key: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    #: Where the fetching log parts from the leader's: the epoch, and where it ends.
    diverging: tuple[int, int] | None = None
    #: The leader and its epoch, for who asked the wrong node.
    leader: tuple[int, int] | None = None


class DelayedFetch(DelayedOperation):
    """Waits until the partitions have `min_bytes` together, or one of them has something else to tell.

    Watch keys: the partitions. `reply` reads the log again when the operation ends, however it
    does.
    """

    __slots__ = ("changes", "expirations", "find", "params", "reply", "seen", "targets")

    def __init__(
        self,
        params: FetchParams,
        targets: list[FetchTarget],
        find: Callable[[TopicPartition], Replica | None],
        reply: Callable[[], None],
        expirations: FetchExpirations,
        changes: Callable[[], int],
    ) -> None:
        super().__init__(params.max_wait_ms)
        self.params = params
        self.targets = targets
        self.find = find
        self.reply = reply
        self.expirations = expirations
        self.changes = changes
        #: How often anything had changed by the last try.
        self.seen = -1

    def try_complete(self) -> bool:
        """True at once where a partition is gone, is led by another or in another epoch, or was cut below the offset."""
        changes = self.changes()
        if changes == self.seen:
            # A request that changed a thousand partitions notifies a thousand keys, each of which
            # this may be watched under.
            return False
        self.seen = changes
        is_follower = self.params.is_follower
        least = self.params.min_bytes
        available = 0
        for target in self.targets:
            replica = self.find(target.key)
            if replica is None or target.topic_id not in (None, replica.topic_id):
                return self.force_complete()
            if not replica.is_leader and self.params.leader_only:
                return self.force_complete()
            epoch = target.current_leader_epoch
            if epoch >= 0 and epoch != replica.leader_epoch:
                return self.force_complete()
            log = replica.log
            offset = target.offset
            end = log.end_offset if is_follower else replica.high_watermark
            if end > offset:
                available += min(log.bytes_between(offset, end), target.max_bytes)
                if available >= least:
                    return self.force_complete()
            elif offset > log.end_offset:
                return self.force_complete()  # The log was cut.
            if offset < log.log_start_offset:
                return self.force_complete()
            if (
                target.last_fetched_epoch >= 0
                and log.latest_epoch != target.last_fetched_epoch
                and diverges(replica, target)
            ):
                return self.force_complete()
        return False

    def on_complete(self) -> None:
        self.reply()

    def on_expiration(self) -> None:
        self.expirations.count(follower=self.params.is_follower)


def diverges(replica: Replica, target: FetchTarget) -> tuple[int, int] | None:
    """Where the fetching log parts from this leader's.

    The largest epoch that both may have, and its end; None if nowhere.
    """
    if target.last_fetched_epoch < 0:
        return None
    epoch, end = replica.log.epoch_end(target.last_fetched_epoch)
    if end < 0 or epoch < target.last_fetched_epoch or end < target.offset:
        return epoch, end
    return None
