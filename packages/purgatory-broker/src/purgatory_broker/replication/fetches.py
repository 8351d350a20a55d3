"""Reads from a node's partitions, by consumers and by the followers of those that it leads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.replication.delayed_fetch import (
    DelayedFetch,
    FetchCondition,
    FetchedPartition,
    FetchExpirations,
    FetchParams,
    FetchTarget,
    LastRead,
    Reader,
    SharedResult,
    diverging_epoch,
)
from purgatory_broker.replication.follower_log import LogBounds
from purgatory_broker.replication.replica import FollowerState, Replica, ReplicaError
from purgatory_broker.replication.replica_manager import ReplicaManager

#: The replica id of all fetches that are not a follower's.
_CONSUMER = -1
#: The most bytes that are kept for the next fetch that reads the same.
_MAX_SHARED_BYTES = 2**20


class _LastAttempt(NamedTuple):
    """Whether the fetch that was last tried is complete."""

    change_count: int
    params: FetchParams
    targets: list[FetchTarget]
    is_complete: bool


class _IdleFollower(NamedTuple):
    """The last fetch of a follower that is in sync and had nothing to read."""

    change_count: int
    targets: list[FetchTarget]
    states: list[FollowerState]


class Fetches:
    def __init__(self, replicas: ReplicaManager) -> None:
        self.expirations = FetchExpirations()
        self.replicas = replicas
        self._last_reads: dict[int, LastRead] = {}
        self._last_attempt: _LastAttempt | None = None
        self._idle_followers: dict[int, _IdleFollower] = {}

    def fetch(
        self,
        params: FetchParams,
        targets: list[FetchTarget],
        reply: Callable[[list[FetchedPartition]], None],
        reader: Reader | None = None,
    ) -> DelayedFetch | None:
        """Read partitions when they have `min_bytes` together, or after `max_wait_ms`.

        A follower's fetch also reports which records it has, which may advance the high watermark.
        Returns None if the request did not have to wait.
        """
        if params.replica_id >= 0:
            self._update_follower(params, targets)
        read = self._read_shared(params, targets, reader)
        fetched = read.fetched
        size = 0
        needs_response = False
        for result in fetched:
            size += len(result.records)
            if result.error is not ErrorCode.NONE or result.diverging is not None:
                needs_response = True
        if self.replicas.recorder is not None and targets and not needs_response:
            self.replicas.recorder.fetches(self.replicas.node_id, params, targets, size)
        if params.max_wait_ms <= 0 or not targets or size >= params.min_bytes or needs_response:
            reply(fetched)
            return None
        operation = DelayedFetch(params, targets, self, reply, reader, None if size else read)
        if not size and not (params.read_committed and _is_beyond(params, targets, fetched)):
            # There is nothing to read, so only a change can complete the fetch.
            operation.seen_change_count = read.change_count
        self.replicas.purgatories.fetch.try_complete_else_watch(
            operation, [target.key for target in targets]
        )
        return None if operation.is_completed else operation

    # -- what waiting fetches ask for

    def is_complete(self, params: FetchParams, targets: list[FetchTarget]) -> bool:
        """Return whether a fetch is to be answered; asked once for fetches of the same."""
        last = self._last_attempt
        change_count = self.replicas.change_count
        if (
            last is None
            or last.change_count != change_count
            or last.targets != targets
            or last.params != params
        ):
            holds = FetchCondition(params, targets, self.replicas.find).holds()
            last = self._last_attempt = _LastAttempt(change_count, params, targets, holds)
        return last.is_complete

    def respond(self, operation: DelayedFetch) -> None:
        nothing = operation.nothing
        if nothing is None or nothing.change_count != self.replicas.change_count:
            nothing = self._read_shared(operation.params, operation.targets, operation.reader)
        operation.reply(nothing.fetched)

    # -- reads

    def _read_shared(
        self, params: FetchParams, targets: list[FetchTarget], reader: Reader | None
    ) -> LastRead:
        """Return what `read` does, or what the last fetch has read, if that is the same.

        A record that completes many fetches is thus read once. An idle reader's last fetch is
        remembered beside that of all others.
        """
        change_count = self.replicas.change_count
        if reader is not None:
            last = reader.last_read
            if (
                last is not None
                and last.change_count == change_count
                and last.targets is targets
                and last.params == params
            ):
                return last
        number = params.replica_id if params.replica_id in self._idle_followers else _CONSUMER
        last = self._last_reads.get(number)
        if (
            last is None
            or last.change_count != change_count
            or last.targets != targets
            or last.params != params
        ):
            fetched = self.read(params, targets)
            is_read = True
            size = 0
            for partition in fetched:
                size += len(partition.records)
                if partition.error is not ErrorCode.NONE or partition.diverging is not None:
                    is_read = False
            # Errors also depend on what exists elsewhere, whose changes are not counted here.
            if not is_read or size > _MAX_SHARED_BYTES:
                return LastRead(change_count, params, targets, fetched)
            last = LastRead(change_count, params, targets, SharedResult(fetched))
            self._last_reads[number] = last
        if reader is not None:
            # Without records, which would be kept for each of the readers.
            has_records = any(partition.records for partition in last.fetched)
            reader.last_read = None if has_records else last._replace(targets=targets)
        return last

    def read(self, params: FetchParams, targets: list[FetchTarget]) -> list[FetchedPartition]:
        # The first batch is read however large it is, so that a consumer makes progress.
        left = params.max_bytes
        at_least_one = True
        results = []
        for target in targets:
            fetched = self._read(
                params, target, min(left, target.max_bytes), at_least_one=at_least_one
            )
            if fetched.records:
                at_least_one = False
                left = max(0, left - len(fetched.records))
            results.append(fetched)
        return results

    def _read(
        self, params: FetchParams, target: FetchTarget, max_bytes: int, *, at_least_one: bool
    ) -> FetchedPartition:
        fetched = FetchedPartition(target.key)
        try:
            replica, fetched.diverging = self._check_target(params, target)
            if fetched.diverging is not None:
                return fetched
            log = replica.log
            limit = fetched.high_watermark = fetched.last_stable_offset = replica.high_watermark
            if log.transactions.first_offset is not None:
                fetched.last_stable_offset = replica.last_stable_offset
            fetched.log_start_offset = log.log_start_offset
            if params.replica_id >= 0:
                limit = log.end_offset
            elif params.read_committed:
                limit = fetched.last_stable_offset
            if target.offset < limit:
                fetched.records = log.read(
                    target.offset, max_bytes, limit, at_least_one=at_least_one
                )
            if params.read_committed and not params.is_follower:
                end = log.end_of_read(target.offset, len(fetched.records))
                fetched.aborted = log.aborted_transactions(target.offset, end)
        except (ReplicaError, RecordError) as error:
            # A new result: the offsets read before the error are not in the response.
            return FetchedPartition(target.key, error.code)
        return fetched

    def _check_target(
        self, params: FetchParams, target: FetchTarget
    ) -> tuple[Replica, tuple[int, int] | None]:
        """Return the replica to read, and where the fetcher's log diverges from it, or None."""
        replica = self.replicas.require_leader(
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
        """For a follower whose offset is out of range, which in Kafka asks by ListOffsets."""
        try:
            replica = self.replicas.require_leader(target.key, target.current_leader_epoch)
        except ReplicaError as error:
            return LogBounds(error.code)
        if target.topic_id not in (None, replica.topic_id):
            return LogBounds(ErrorCode.INCONSISTENT_TOPIC_ID)
        return LogBounds(ErrorCode.NONE, replica.log.log_start_offset, replica.log.end_offset)

    def _update_follower(self, params: FetchParams, targets: list[FetchTarget]) -> None:
        """Note that a follower has every record before the offsets that it fetches from."""
        now_ms = self.replicas.now_ms()
        idle = self._idle_followers.pop(params.replica_id, None)
        if (
            idle is not None
            and idle.change_count == self.replicas.change_count
            and idle.targets == targets
        ):
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
            if (
                replica.can_join_isr(params.replica_id)
                and params.replica_id in self.replicas.alive()
            ):
                self.replicas.alter_partition(replica, [*replica.isr, params.replica_id])
            self.replicas.advance_high_watermark(replica)
            if follower.log_start_offset != before:
                self.replicas.actions.add(
                    partial(self.replicas.purgatories.delete_records.notify, replica.key)
                )
            states.append(follower)
            is_idle = is_idle and (
                params.replica_id in replica.isr
                and target.offset == replica.high_watermark == replica.log.end_offset
            )
        if is_idle and targets:
            # The same fetch again changes no more than the times, until something else changes.
            self._idle_followers[params.replica_id] = _IdleFollower(
                self.replicas.change_count, targets, states
            )


def _is_beyond(
    params: FetchParams, targets: list[FetchTarget], fetched: list[FetchedPartition]
) -> bool:
    """Return whether a read_committed fetch begins after the last stable offset."""
    return not params.is_follower and any(
        target.offset > result.last_stable_offset
        for target, result in zip(targets, fetched, strict=True)
    )
