"""A node's replicas: appending to them, reading from them, and who waits for which."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from request_purgatory.broker.log import NoBatchError, RecordError
from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.deferred_actions import Actions
from request_purgatory.broker.replication.delayed_delete_records import (
    DelayedDeleteRecords,
    DeletedPartition,
)
from request_purgatory.broker.replication.delayed_fetch import (
    DelayedFetch,
    FetchedPartition,
    FetchParams,
    FetchTarget,
    diverges,
)
from request_purgatory.broker.replication.delayed_produce import (
    DelayedProduce,
    ProducedPartition,
)
from request_purgatory.broker.replication.replica import Replica, ReplicaError
from request_purgatory.broker.replication.replica_metrics import FetchExpirations
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.aio import Purgatory
    from request_purgatory.broker.replication.recorder import Recorder

logger = logging.getLogger(__name__)

#: Errors of records that Kafka tells no log start with.
_BEFORE_THE_LOG = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
#: What DeleteRecords names the high watermark by.
TO_HIGH_WATERMARK = -1


class LogBounds(NamedTuple):
    """What a leader tells of its log."""

    error: ErrorCode
    log_start_offset: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class ReplicaPurgatories:
    """Where requests wait for replicas."""

    produce: Purgatory
    fetch: Purgatory
    delete_records: Purgatory


class ReplicaManager:
    """The replicas of one node.

    Methods that change something put off the wake-ups until the outermost `with actions` block is
    left.
    """

    def __init__(
        self,
        node_id: int,
        settings: ClusterSettings,
        purgatories: ReplicaPurgatories,
        actions: Actions,
        *,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        knows: Callable[[TopicPartition], bool],
        alive: Callable[[], Collection[int]],
        alter_isr: Callable[[Replica, list[int]], None],
    ) -> None:
        self.node_id = node_id
        self.settings = settings
        self.purgatories = purgatories
        self.actions = actions
        self.replicas: dict[TopicPartition, Replica] = {}
        self.fetch_expirations = FetchExpirations()
        #: How often something has changed that a fetch may wait for.
        self.changes = 0
        self.recorder: Recorder | None = None
        #: The loop's time, for who lags; and the time of day, for records.
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._knows = knows
        self._alive = alive
        self._alter_isr = alter_isr

    def find(self, key: TopicPartition) -> Replica | None:
        """A replica of this node; None if it has none of that partition."""
        return self.replicas.get(key)

    def _leader(
        self, key: TopicPartition, leader_epoch: int = -1, *, or_follower: bool = False
    ) -> Replica:
        replica = self.replicas.get(key)
        if replica is None:
            known = self._knows(key)
            raise ReplicaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        replica.require_leader(leader_epoch, or_follower=or_follower)
        return replica

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
        """Append to partitions that this node leads, and answer when `acks` of 0, 1 or -1 (all) says so.

        Returns:
            The operation if it waits.
        """
        produced = [self._append(key, batch, acks, internal=internal) for key, batch in records]
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
            replica = self._leader(key)
            if acks == -1 and not replica.has_enough_replicas:
                raise ReplicaError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"The size of the current ISR {replica.isr} is insufficient to satisfy the min.isr requirement of "
                    f"{replica.min_insync_replicas} for partition {key}",
                )
            appended = replica.log.append_as_leader(
                batch or b"", replica.leader_epoch, self._wall_ms(), internal=internal
            )
        except (ReplicaError, RecordError) as error:
            produced.error = error.code
            produced.message = str(error)
            if isinstance(error, RecordError):
                produced.faults = error.faults
            if error.code not in _BEFORE_THE_LOG and not isinstance(error, NoBatchError):
                produced.log_start_offset = self.replicas[key].log.log_start_offset
            return produced
        produced.base_offset = appended.base_offset
        produced.log_append_time_ms = appended.log_append_time_ms
        produced.log_start_offset = replica.log.log_start_offset
        produced.required_offset = appended.last_offset + 1
        produced.pending = acks == -1
        produced.replica = replica
        if not appended.duplicate:
            self._appended(replica, len(batch or b""))
        return produced

    def _appended(self, replica: Replica, size_bytes: int) -> None:
        if self.recorder is not None:
            self.recorder.appended(replica, size_bytes)
        # Followers read up to the log's end; with no follower in sync the high watermark moves now.
        self.changes += 1
        self.actions.notify(self.purgatories.fetch, replica.key)
        self.advance(replica)

    def advance(self, replica: Replica) -> None:
        """Move a leader's high watermark as far as it may, and have those tried who wait for it."""
        before = replica.high_watermark
        if replica.advance_high_watermark(
            self._now_ms(), self.settings.replica_lag_time_max_ms, self._alive()
        ):
            if self.recorder is not None:
                self.recorder.high_watermark(
                    replica, replica.log.bytes_between(before, replica.high_watermark)
                )
            self.wake(replica.key)

    def wake(self, key: TopicPartition) -> None:
        """Have those tried who wait for a partition."""
        self.changes += 1
        self.actions.notify(self.purgatories.produce, key)
        self.actions.notify(self.purgatories.fetch, key)
        self.actions.notify(self.purgatories.delete_records, key)

    # -- fetch

    def fetch(
        self,
        params: FetchParams,
        targets: list[FetchTarget],
        reply: Callable[[list[FetchedPartition]], None],
    ) -> DelayedFetch | None:
        """Read partitions that this node leads, now or once there are `min_bytes`, but no later than `max_wait_ms`.

        Returns:
            The operation if it waits.
        """
        if params.is_follower:
            self._note_follower(params, targets)
        fetched = self.read(params, targets)
        size = sum(len(each.records) for each in fetched)
        tells = any(
            each.error is not ErrorCode.NONE or each.diverging is not None for each in fetched
        )
        if self.recorder is not None and targets and not tells:
            self.recorder.fetches(self.node_id, params, targets, size)
        if params.max_wait_ms <= 0 or not targets or size >= params.min_bytes or tells:
            reply(fetched)
            return None
        operation = DelayedFetch(
            params,
            targets,
            self.find,
            lambda: reply(self.read(params, targets)),
            self.fetch_expirations,
            lambda: self.changes,
        )
        self.purgatories.fetch.try_complete_else_watch(
            operation, [target.key for target in targets]
        )
        return None if operation.is_completed else operation

    def read(self, params: FetchParams, targets: list[FetchTarget]) -> list[FetchedPartition]:
        """Read partitions as they are now, `max_bytes` together.

        The first batch of all is read however large it is.
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
            replica, fetched.diverging = self._fetched_from(params, target)
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
            # As a whole: what was found out before the disk failed is not told.
            return FetchedPartition(target.key, error.code)
        return fetched

    def _fetched_from(
        self, params: FetchParams, target: FetchTarget
    ) -> tuple[Replica, tuple[int, int] | None]:
        """The replica that a fetch may read, and where the fetching log parts from that replica's, if it does.

        Raises:
            ReplicaError: as Kafka answers.
        """
        replica = self._leader(
            target.key, target.current_leader_epoch, or_follower=not params.leader_only
        )
        if target.topic_id not in (None, replica.topic_id):
            raise ReplicaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if params.is_follower and params.replica_id not in replica.followers:
            raise ReplicaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        parts = diverges(replica, target)
        log = replica.log
        # A log that goes on differently may be the longer one, which is for its follower to cut; if
        # this one knows the epoch.
        if target.offset < log.log_start_offset or (
            target.offset > log.end_offset if parts is None else parts[1] < 0
        ):
            raise ReplicaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return replica, parts

    def bounds(self, target: FetchTarget) -> LogBounds:
        """Where a leader's log begins and ends.

        ListOffsets, as a follower asks whose offset is out of range.
        """
        try:
            replica = self._leader(target.key, target.current_leader_epoch)
        except ReplicaError as error:
            return LogBounds(error.code)
        if target.topic_id not in (None, replica.topic_id):
            return LogBounds(ErrorCode.INCONSISTENT_TOPIC_ID)
        return LogBounds(ErrorCode.NONE, replica.log.log_start_offset, replica.log.end_offset)

    def _note_follower(self, params: FetchParams, targets: list[FetchTarget]) -> None:
        """A follower has all before the offset that it fetches from."""
        now_ms = self._now_ms()
        for target in targets:
            try:
                replica, parts = self._fetched_from(params, target)
            except ReplicaError:
                continue
            if parts is not None:
                continue
            follower = replica.followers[params.replica_id]
            before = follower.log_start_offset
            follower.fetched(target.offset, target.log_start_offset, replica.log.end_offset, now_ms)
            if replica.may_join(params.replica_id) and params.replica_id in self._alive():
                self._alter_isr(replica, [*replica.isr, params.replica_id])
            self.advance(replica)
            if follower.log_start_offset != before:
                self.actions.notify(self.purgatories.delete_records, replica.key)

    def shrink(self) -> None:
        """Have followers that lag for too long leave the in-sync replicas."""
        now_ms = self._now_ms()
        for replica in self.replicas.values():
            if replica.is_leader:
                lagging = replica.lagging(now_ms, self.settings.replica_lag_time_max_ms)
                if lagging and replica.wished_isr is None:
                    logger.warning(
                        "%s: %s lag behind and are not in sync any more", replica.key, lagging
                    )
                    self._alter_isr(replica, [node for node in replica.isr if node not in lagging])

    # -- delete records

    def delete_records(
        self,
        timeout_ms: int,
        offsets: list[tuple[TopicPartition, int]],
        reply: Callable[[list[DeletedPartition]], None],
    ) -> None:
        """Delete what is before an offset, -1 for the high watermark.

        Answered when every replica has.
        """
        deleted = []
        for key, offset in offsets:
            partition = DeletedPartition(key)
            deleted.append(partition)
            try:
                replica = self._leader(key)
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
            replica.log.advance_start(offset)
            self.wake(replica.key)
        return offset
