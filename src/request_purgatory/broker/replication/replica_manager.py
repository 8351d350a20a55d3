"""A node's replicas: appends, reads and deletions, and the requests that wait for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from request_purgatory.aio import Purgatory
from request_purgatory.broker.deferred_actions import ActionQueue
from request_purgatory.broker.log import BatchFormatError, RecordError
from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_delete_records import (
    DelayedDeleteRecords,
    DeletedPartition,
)
from request_purgatory.broker.replication.delayed_fetch import (
    DelayedFetch,
    FetchedPartition,
    FetchParams,
    FetchTarget,
    diverging_epoch,
)
from request_purgatory.broker.replication.delayed_produce import (
    DelayedProduce,
    ProducedPartition,
)
from request_purgatory.broker.replication.leader_endpoint import LogBounds
from request_purgatory.broker.replication.recorder import Recorder
from request_purgatory.broker.replication.replica import FollowerState, Replica, ReplicaError
from request_purgatory.broker.replication.replica_metrics import FetchExpirations
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

#: Errors with which Kafka's Produce response has no log start offset.
_WITHOUT_LOG_START = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
#: The most invalid records that the response to one request names. Kafka has no such limit; a
#: request of 100 MB may have millions of invalid records.
MAX_FAULTS = 50_000
#: The replica id of all fetches that are not a follower's.
_CONSUMER = -1
#: The most bytes that are kept for the next fetch that reads the same.
_MAX_SHARED_BYTES = 2**20
#: The offset by which a DeleteRecords request means the high watermark.
TO_HIGH_WATERMARK = -1


class _SharedRead(NamedTuple):
    """The result of the last fetch, for another one that reads the same before anything changes."""

    change_count: int
    params: FetchParams
    targets: list[FetchTarget]
    fetched: list[FetchedPartition]


class _IdleFollower(NamedTuple):
    """The last fetch of a follower that is in sync and had nothing to read."""

    change_count: int
    targets: list[FetchTarget]
    states: list[FollowerState]


@dataclass(frozen=True, slots=True)
class ReplicaPurgatories:
    """The purgatories of requests that wait for replicas."""

    produce: Purgatory
    fetch: Purgatory
    delete_records: Purgatory


class ReplicaManager:
    """The replicas of one node.

    Methods that change a replica defer the notifications of waiting requests to the end of the
    outermost `with actions:` block; callers must be inside one.
    """

    def __init__(
        self,
        node_id: int,
        settings: ClusterSettings,
        purgatories: ReplicaPurgatories,
        actions: ActionQueue,
        *,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        partition_exists: Callable[[TopicPartition], bool],
        alive: Callable[[], Collection[int]],
        alter_partition: Callable[[Replica, list[int]], None],
        on_change: Callable[[TopicPartition], None],
    ) -> None:
        """Create a manager without replicas.

        Args:
            node_id: the node's number.
            settings: the cluster's settings.
            purgatories: for the requests that wait.
            actions: the node's deferred notifications.
            now_ms: the event loop's time, to measure lag.
            wall_ms: the time of day in milliseconds since 1970, for record timestamps.
            partition_exists: returns whether a partition exists anywhere in the cluster.
            alive: returns the live nodes.
            alter_partition: requests other in-sync replicas for a replica of this leader.
            on_change: called with a partition after each change of its high watermark or role.
        """
        self.node_id = node_id
        self.settings = settings
        self.purgatories = purgatories
        self.actions = actions
        self.replicas: dict[TopicPartition, Replica] = {}
        self.fetch_expirations = FetchExpirations()
        #: The number of changes so far of what a fetch reads; see DelayedFetch. Until the next one,
        #: the same fetch has the same result.
        self.change_count = 0
        self._get_change_count = lambda: self.change_count
        self._last_reads: dict[int, _SharedRead] = {}
        self._idle_followers: dict[int, _IdleFollower] = {}
        self.recorder: Recorder | None = None
        self.is_closed = False
        self.now_ms = now_ms
        self._wall_ms = wall_ms
        self._partition_exists = partition_exists
        self._alive = alive
        self._alter_partition = alter_partition
        self._on_change = on_change

    def find(self, key: TopicPartition) -> Replica | None:
        """Return this node's replica of a partition; None if it has none."""
        return self.replicas.get(key)

    def _leader_replica(
        self, key: TopicPartition, leader_epoch: int = -1, *, or_follower: bool = False
    ) -> Replica:
        replica = self.replicas.get(key)
        if replica is None:
            exists = self._partition_exists(key)
            raise ReplicaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        replica.require_leader(leader_epoch, or_follower=or_follower)
        return replica

    def close(self) -> None:
        """Serve no more requests of followers, since the node stops."""
        self.is_closed = True

    # -- append

    def append(
        self,
        acks: int,
        timeout_ms: int,
        records: list[tuple[TopicPartition, bytes | memoryview | None]],
        reply: Callable[[list[ProducedPartition]], None],
        *,
        internal: bool = False,
    ) -> DelayedProduce | None:
        """Append batches to partitions that this node leads.

        Calls `reply` at once if `acks` is 0 or 1; if it is -1 (all), when the in-sync replicas have
        the records or the timeout has passed.

        Args:
            acks: 0, 1 or -1, of the Produce request.
            timeout_ms: milliseconds that the request may wait.
            records: partitions and their record batches.
            reply: called once, with the results by partition.
            internal: allow batches that only the broker itself may write.

        Returns:
            The delayed operation; None if the request did not have to wait.
        """
        produced = []
        remaining_faults = MAX_FAULTS
        for key, batch in records:
            partition = self._append(key, batch, acks, internal=internal)
            partition.faults = partition.faults[:remaining_faults]
            remaining_faults -= len(partition.faults)
            produced.append(partition)
        if acks == -1 and self.recorder is not None:
            self.recorder.produced(self.node_id, timeout_ms, produced)
        if acks != -1 or not any(each.pending for each in produced):
            reply(produced)
            return None
        operation = DelayedProduce(timeout_ms, produced, self.find, reply)
        keys = [each.key for each in produced]
        self.purgatories.produce.try_complete_else_watch(operation, keys)
        return None if operation.is_completed else operation

    def _append(
        self, key: TopicPartition, batch: bytes | memoryview | None, acks: int, *, internal: bool
    ) -> ProducedPartition:
        produced = ProducedPartition(key)
        try:
            replica = self._leader_replica(key)
            if acks == -1 and not replica.has_enough_replicas:
                raise ReplicaError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"The size of the current ISR {replica.isr} is insufficient to satisfy the "
                    f"min.isr requirement of {replica.min_insync_replicas} for partition {key}",
                )
            appended = replica.log.append_as_leader(
                batch or b"", replica.leader_epoch, self._wall_ms(), internal=internal
            )
        except (ReplicaError, RecordError) as error:
            produced.error = error.code
            produced.message = str(error)
            if isinstance(error, RecordError):
                produced.faults = error.faults
            if error.code not in _WITHOUT_LOG_START and not isinstance(error, BatchFormatError):
                produced.log_start_offset = self.replicas[key].log.log_start_offset
            return produced
        produced.base_offset = appended.base_offset
        produced.log_append_time_ms = appended.log_append_time_ms
        produced.log_start_offset = replica.log.log_start_offset
        produced.required_offset = appended.last_offset + 1
        produced.pending = acks == -1
        produced.replica = replica
        if not appended.duplicate:
            self._after_append(replica, len(batch or b""))
        return produced

    def _after_append(self, replica: Replica, size_bytes: int) -> None:
        if self.recorder is not None:
            self.recorder.appended(replica, size_bytes)
        # The log's end has moved, for followers. The high watermark, for consumers, moves now only
        # if no other replica is in sync.
        self.change_count += 1
        self._notify(self.purgatories.fetch, replica.key)
        self.advance_high_watermark(replica)

    def advance_high_watermark(self, replica: Replica) -> None:
        """Advance a leader's high watermark as far as possible, and notify waiting requests."""
        before = replica.high_watermark
        if replica.advance_high_watermark(
            self.now_ms(), self.settings.replica_lag_time_max_ms, self._alive()
        ):
            if self.recorder is not None:
                self.recorder.high_watermark(
                    replica, replica.log.bytes_between(before, replica.high_watermark)
                )
            self.notify_partition(replica.key)

    def notify_partition(self, key: TopicPartition) -> None:
        """Try every request that waits for a partition, when the outermost block ends."""
        self.change_count += 1
        self._notify(self.purgatories.produce, key)
        self._notify(self.purgatories.fetch, key)
        self._notify(self.purgatories.delete_records, key)
        self._on_change(key)

    def _notify(self, purgatory: Purgatory, key: TopicPartition) -> None:
        # A request that begins to wait later has seen the change when it was first tried.
        if purgatory.num_watchers(key):
            self.actions.add(partial(purgatory.notify, key))

    # -- fetch

    def fetch(
        self,
        params: FetchParams,
        targets: list[FetchTarget],
        reply: Callable[[list[FetchedPartition]], None],
    ) -> DelayedFetch | None:
        """Read partitions when they have `min_bytes` together, or after `max_wait_ms`.

        A follower's fetch also reports which records it has, which may advance the high watermark.

        Args:
            params: of the request.
            targets: the partitions.
            reply: called once, with the results by partition.

        Returns:
            The delayed operation; None if the request did not have to wait.
        """
        if params.is_follower:
            self._update_follower(params, targets)
        fetched = self._read_shared(params, targets)
        size = sum(len(each.records) for each in fetched)
        needs_response = any(
            each.error is not ErrorCode.NONE or each.diverging is not None for each in fetched
        )
        if self.recorder is not None and targets and not needs_response:
            self.recorder.fetches(self.node_id, params, targets, size)
        if params.max_wait_ms <= 0 or not targets or size >= params.min_bytes or needs_response:
            reply(fetched)
            return None
        operation = DelayedFetch(
            params,
            targets,
            self.find,
            # Not a lambda, which is six objects more for the cyclic collector to look at.
            partial(
                self._respond,
                params,
                targets,
                reply,
                None if size else fetched,
                self.change_count,
            ),
            self.fetch_expirations,
            self._get_change_count,
        )
        if not size:
            # There is nothing to read, so only a change can complete the fetch.
            operation.seen_change_count = self.change_count
        self.purgatories.fetch.try_complete_else_watch(
            operation, [target.key for target in targets]
        )
        return None if operation.is_completed else operation

    def _respond(
        self,
        params: FetchParams,
        targets: list[FetchTarget],
        reply: Callable[[list[FetchedPartition]], None],
        nothing: list[FetchedPartition] | None,
        change_count: int,
    ) -> None:
        """Reply to a fetch that has waited.

        Args:
            params: of the request.
            targets: the partitions.
            reply: called with the results.
            nothing: the results without records when the fetch began to wait, if that is what it
                found; still the right ones if nothing has changed since.
            change_count: `change_count` at that time.
        """
        if nothing is not None and change_count == self.change_count:
            reply(nothing)
        else:
            reply(self._read_shared(params, targets))

    def _read_shared(
        self, params: FetchParams, targets: list[FetchTarget]
    ) -> list[FetchedPartition]:
        """Return what `read` does, or what the last fetch has read, if that is the same.

        A record that completes many fetches is thus read once. An idle follower's last fetch is
        remembered beside that of all others. The result must not be changed.
        """
        reader = params.replica_id if params.replica_id in self._idle_followers else _CONSUMER
        last = self._last_reads.get(reader)
        if (
            last is not None
            and last.change_count == self.change_count
            and last.targets == targets
            and last.params == params
        ):
            return last.fetched
        fetched = self.read(params, targets)
        is_read = all(each.error is ErrorCode.NONE and each.diverging is None for each in fetched)
        # Errors also depend on what exists elsewhere, whose changes are not counted here.
        if is_read and sum(len(each.records) for each in fetched) <= _MAX_SHARED_BYTES:
            self._last_reads[reader] = _SharedRead(self.change_count, params, targets, fetched)
        return fetched

    def read(self, params: FetchParams, targets: list[FetchTarget]) -> list[FetchedPartition]:
        """Read partitions now, at most `max_bytes` together.

        The first batch is read however large it is, so that a consumer always makes progress.

        Args:
            params: of the request.
            targets: the partitions.

        Returns:
            The results by partition.
        """
        left = params.max_bytes
        at_least_one = True
        found = []
        for target in targets:
            fetched = self._read(
                params, target, min(left, target.max_bytes), at_least_one=at_least_one
            )
            if fetched.records:
                at_least_one = False
                left = max(0, left - len(fetched.records))
            found.append(fetched)
        return found

    def _read(
        self, params: FetchParams, target: FetchTarget, max_bytes: int, *, at_least_one: bool
    ) -> FetchedPartition:
        fetched = FetchedPartition(target.key)
        try:
            replica, fetched.diverging = self._check_target(params, target)
            if fetched.diverging is not None:
                return fetched
            fetched.high_watermark = replica.high_watermark
            fetched.log_start_offset = replica.log.log_start_offset
            limit = replica.log.end_offset if params.is_follower else replica.high_watermark
            if target.offset < limit:
                fetched.records = replica.log.read(
                    target.offset, max_bytes, limit, at_least_one=at_least_one
                )
        except (ReplicaError, RecordError) as error:
            # A new result: the offsets read before the error are not in the response.
            return FetchedPartition(target.key, error.code)
        return fetched

    def _check_target(
        self, params: FetchParams, target: FetchTarget
    ) -> tuple[Replica, tuple[int, int] | None]:
        """Check that a fetch may read a partition from its offset.

        Args:
            params: of the request.
            target: the partition.

        Returns:
            The replica to read, and where the fetcher's log diverges from it; None if it does not.

        Raises:
            ReplicaError: with the error code of Kafka's Fetch.
        """
        replica = self._leader_replica(
            target.key, target.current_leader_epoch, or_follower=not params.leader_only
        )
        if target.topic_id not in (None, replica.topic_id):
            raise ReplicaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if params.is_follower and params.replica_id not in replica.followers:
            raise ReplicaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        diverging = diverging_epoch(replica, target)
        log = replica.log
        # A diverging log may be longer than this one: its follower truncates it, unless this log
        # does not know the epoch at all.
        is_too_long = target.offset > log.end_offset if diverging is None else diverging[1] < 0
        if target.offset < log.log_start_offset or is_too_long:
            raise ReplicaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return replica, diverging

    def log_bounds(self, target: FetchTarget) -> LogBounds:
        """Return where a leader's log begins and ends.

        A follower whose offset is out of range asks for them, in Kafka by ListOffsets.

        Args:
            target: the partition, with the leader epoch and topic id that the follower knows.

        Returns:
            The bounds, or an error.
        """
        try:
            replica = self._leader_replica(target.key, target.current_leader_epoch)
        except ReplicaError as error:
            return LogBounds(error.code)
        if target.topic_id not in (None, replica.topic_id):
            return LogBounds(ErrorCode.INCONSISTENT_TOPIC_ID)
        return LogBounds(ErrorCode.NONE, replica.log.log_start_offset, replica.log.end_offset)

    def _update_follower(self, params: FetchParams, targets: list[FetchTarget]) -> None:
        """Note that a follower has every record before the offsets that it fetches from."""
        now_ms = self.now_ms()
        idle = self._idle_followers.pop(params.replica_id, None)
        if idle is not None and idle.change_count == self.change_count and idle.targets == targets:
            self._idle_followers[params.replica_id] = idle
            for state in idle.states:
                state.fetch_again(now_ms)
            return
        is_idle = True
        states = []
        for target in targets:
            try:
                replica, diverging = self._check_target(params, target)
            except ReplicaError:
                is_idle = False
                continue
            if diverging is not None:
                is_idle = False
                continue
            follower = replica.followers[params.replica_id]
            before = follower.log_start_offset
            follower.update(target.offset, target.log_start_offset, replica.log.end_offset, now_ms)
            if replica.can_join_isr(params.replica_id) and params.replica_id in self._alive():
                self._alter_partition(replica, [*replica.isr, params.replica_id])
            self.advance_high_watermark(replica)
            if follower.log_start_offset != before:
                self.actions.add(partial(self.purgatories.delete_records.notify, replica.key))
            states.append(follower)
            is_idle = is_idle and (
                params.replica_id in replica.isr
                and target.offset == replica.high_watermark == replica.log.end_offset
            )
        if is_idle and targets:
            # The same fetch again changes no more than the times, until something else changes.
            self._idle_followers[params.replica_id] = _IdleFollower(
                self.change_count, targets, states
            )

    def shrink_isr(self) -> None:
        """Request to remove followers that lag for too long from the in-sync replicas."""
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
                self._alter_partition(
                    replica, [node for node in replica.isr if node not in lagging]
                )

    # -- delete records

    def delete_records(
        self,
        timeout_ms: int,
        offsets: list[tuple[TopicPartition, int]],
        reply: Callable[[list[DeletedPartition]], None],
    ) -> None:
        """Delete the records before an offset in partitions that this node leads.

        Calls `reply` when every live replica has deleted them, or the timeout has passed.

        Args:
            timeout_ms: milliseconds that the request may wait.
            offsets: partitions and offsets; TO_HIGH_WATERMARK is the high watermark.
            reply: called once, with the results by partition.
        """
        deleted = []
        for key, offset in offsets:
            partition = DeletedPartition(key)
            deleted.append(partition)
            try:
                replica = self._leader_replica(key)
                partition.required_offset = self._delete_before(replica, offset)
                partition.replica = replica
                partition.pending = True
            except (ReplicaError, RecordError) as error:
                partition.error = error.code
        if not any(each.pending for each in deleted):
            reply(deleted)
            return
        operation = DelayedDeleteRecords(
            timeout_ms,
            deleted,
            self.find,
            lambda replica: replica.low_watermark(self._alive()),
            reply,
        )
        self.purgatories.delete_records.try_complete_else_watch(
            operation, [each.key for each in deleted]
        )

    def _delete_before(self, replica: Replica, offset: int) -> int:
        if offset == TO_HIGH_WATERMARK:
            offset = replica.high_watermark
        if not 0 <= offset <= replica.high_watermark:
            raise ReplicaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset > replica.log.log_start_offset:
            replica.log.advance_log_start_offset(offset)
            self.notify_partition(replica.key)
        return offset
