"""Replicates partitions from one leader to a follower, as Kafka's ReplicaFetcherThread does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_fetch import FetchedPartition, FetchParams, FetchTarget
from purgatory_broker.replication.follower_log import (
    LeaderEndPoint,
    LogBounds,
    PendingRequest,
    apply_fetched,
    move_into_bounds,
)
from purgatory_broker.replication.replica import Replica
from purgatory_broker.replication.replica_manager import ReplicaManager
from request_purgatory.error_log import ErrorLog

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Before a partition is fetched again after an error: Kafka's `replica.fetch.backoff.ms`.
BACKOFF_MS = 1_000
#: After the wait that a request asks for, until it is given up: Kafka's
#: `replica.socket.timeout.ms`.
RESPONSE_TIMEOUT_MS = 30_000


class Fetcher:
    """Fetches all the partitions that a node follows one leader in, with one request at a time.

    The fetcher learns about the leader from messages only: it sends Fetch requests, and asks for
    the bounds of the leader's log if its own offset is out of their range.

    At any time the fetcher is in one of three states:

    - scheduled: `_scheduled` is the handle of the next fetch;
    - waiting: `_timeout` is the timer of the request in flight;
    - idle: both are None. There is no partition to fetch, or the fetcher is paused or closed.
    """

    def __init__(
        self, replicas: ReplicaManager, leader: LeaderEndPoint, *, is_paused: bool = False
    ) -> None:
        self.is_paused = is_paused
        self._replicas = replicas
        self._leader = leader
        self._errors = ErrorLog(logger)
        #: The partitions, and the loop's time in milliseconds from which each may be fetched.
        self._partitions: dict[TopicPartition, int] = {}
        #: The last request's targets, if no partition is in its backoff, and the node's
        #: `change_count` at that time: until the next change the next request has the same.
        self._last_targets: tuple[int, list[FetchTarget]] | None = None
        #: The last response, if it changed nothing.
        self._empty_response: list[FetchedPartition] | None = None
        #: The request in flight.
        self._request: PendingRequest | None = None
        self._scheduled: asyncio.TimerHandle | asyncio.Handle | None = None
        self._timeout: asyncio.TimerHandle | None = None

    # -- partitions

    def add(self, key: TopicPartition) -> None:
        self._partitions[key] = 0
        self.restart()

    def remove(self, key: TopicPartition) -> None:
        if key in self._partitions:
            del self._partitions[key]
            self.restart()

    def pause(self) -> None:
        self.is_paused = True
        self._abandon_request()

    def resume(self) -> None:
        self.is_paused = False
        self.restart()

    def close(self) -> None:
        self._partitions.clear()
        self._abandon_request()

    # -- requests

    def restart(self) -> None:
        """Abandon the request in flight, which is out of date or was lost, and send another."""
        self._last_targets = None
        self._abandon_request()
        self._schedule(0)

    def _abandon_request(self) -> None:
        if self._request is not None:
            self._request.cancel()
            self._request = None
        for handle in (self._scheduled, self._timeout):
            if handle is not None:
                handle.cancel()
        self._scheduled = self._timeout = None

    def _schedule(self, delay_ms: int) -> None:
        """Fetch after `delay_ms` milliseconds; no-op unless the fetcher is idle and may fetch."""
        if self._may_fetch:
            loop = asyncio.get_running_loop()
            self._scheduled = (
                loop.call_later(delay_ms / 1_000, self._fetch)
                if delay_ms
                else loop.call_soon(self._fetch)
            )

    @property
    def _may_fetch(self) -> bool:
        if self._scheduled is not None or self._timeout is not None:
            return False
        return not self.is_paused and bool(self._partitions)

    def _fetch(self) -> None:
        self._scheduled = None
        now_ms = self._replicas.now_ms()
        targets = self._fetch_targets(now_ms)
        settings = self._replicas.settings
        params = FetchParams(
            self._replicas.node_id,
            settings.replica_fetch_wait_max_ms,
            settings.replica_fetch_min_bytes,
            settings.fetch_max_bytes,
        )
        if not targets:
            # Every partition is in its backoff: wait for the first to end.
            self._schedule(max(1, min(self._partitions.values(), default=now_ms) - now_ms))
            return
        self._send(
            params.max_wait_ms,
            partial(self._leader.fetch, params, targets),
            partial(self._process_fetch, targets),
        )

    def _fetch_targets(self, now_ms: int) -> list[FetchTarget]:
        change_count = self._replicas.change_count
        if self._last_targets is not None and self._last_targets[0] == change_count:
            return self._last_targets[1]
        targets = [
            self._fetch_target(key)
            for key, from_ms in self._partitions.items()
            if from_ms <= now_ms
        ]
        self._empty_response = self._last_targets = None
        if len(targets) == len(self._partitions):
            self._last_targets = change_count, targets
        return targets

    def _fetch_target(self, key: TopicPartition) -> FetchTarget:
        replica = self._replicas.find(key)
        assert replica is not None, f"{key} is fetched without a replica"
        log = replica.log
        return FetchTarget(
            key,
            log.end_offset,
            self._replicas.settings.replica_fetch_max_bytes,
            replica.leader_epoch,
            log.latest_epoch,
            log.log_start_offset,
            replica.topic_id,
        )

    def _send(
        self,
        wait_ms: int,
        request: Callable[[Callable[[T], None]], PendingRequest],
        process: Callable[[T], None],
    ) -> None:
        """Without a response RESPONSE_TIMEOUT_MS after the wait, the fetcher begins anew."""

        def respond(response: T) -> None:
            self._abandon_request()
            try:
                with self._replicas.actions:
                    process(response)
            finally:
                if self._may_fetch:
                    # At once, not in the loop's next round: the next fetch tells the leader what
                    # was appended here, and acks=all waits for it.
                    self._fetch()

        self._request = request(respond)
        self._timeout = asyncio.get_running_loop().call_later(
            (wait_ms + RESPONSE_TIMEOUT_MS) / 1_000, self.restart
        )

    # -- responses

    def _process_fetch(self, targets: list[FetchTarget], fetched: list[FetchedPartition]) -> None:
        """Process a response, unless it is the same as the last, and that one changed nothing."""
        if not self._is_unchanged(targets):
            self._empty_response = None
        elif fetched == self._empty_response:
            return
        self._process_partitions(targets, fetched)
        self._empty_response = fetched if self._is_unchanged(targets) else None

    def _is_unchanged(self, targets: list[FetchTarget]) -> bool:
        """Return True if the next request has the same targets as the last."""
        last = self._last_targets
        return last is not None and last[1] is targets and last[0] == self._replicas.change_count

    def _process_partitions(
        self, targets: list[FetchTarget], fetched: list[FetchedPartition]
    ) -> None:
        out_of_range = []
        for target, partition in zip(targets, fetched, strict=True):
            replica = self._unchanged_replica(target)
            if replica is None:
                continue
            if partition.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                out_of_range.append(target)
            elif partition.error is not ErrorCode.NONE:
                logger.debug(
                    "node %d: node %d responds %s to %s",
                    self._replicas.node_id,
                    self._leader.leader,
                    partition.error.name,
                    target,
                )
                self._back_off(target.key)
            else:
                self._process_safely(target, self._process_partition, replica, partition)
        if out_of_range:
            self._request_log_bounds(out_of_range)

    def _unchanged_replica(self, target: FetchTarget) -> Replica | None:
        """Return the target's replica; None if it has changed since the request was sent."""
        replica = self._replicas.find(target.key)
        if (
            replica is None
            or replica.topic_id != target.topic_id
            or target.key not in self._partitions
        ):
            return None
        requested = (target.current_leader_epoch, target.offset, target.last_fetched_epoch)
        present = (replica.leader_epoch, replica.log.end_offset, replica.log.latest_epoch)
        return replica if requested == present else None

    def _process_safely(
        self,
        target: FetchTarget,
        process: Callable[[Replica, T], None],
        replica: Replica,
        response: T,
    ) -> None:
        """Process the response for one partition; contain its errors, so that the others go on."""
        try:
            process(replica, response)
        except Exception as error:
            where = (self._replicas.node_id, self._leader.leader, target.key)
            if isinstance(error, RecordError):
                logger.warning("node %d can't follow node %d in %s: %s", *where, error)
            else:
                self._errors.log(error, "node %d can't follow node %d in %s", *where)
            self._back_off(target.key)

    def _back_off(self, key: TopicPartition) -> None:
        self._partitions[key] = self._replicas.now_ms() + BACKOFF_MS
        self._last_targets = None

    def _process_partition(self, replica: Replica, fetched: FetchedPartition) -> None:
        if apply_fetched(replica, fetched):
            # Consumers may read from followers (KIP-392).
            self._replicas.notify_partition(replica.key)

    def _request_log_bounds(self, targets: list[FetchTarget]) -> None:
        """Ask the leader for the bounds of its logs, and adjust the logs that are out of range."""

        def process(response: list[LogBounds]) -> None:
            for target, bounds in zip(targets, response, strict=True):
                replica = self._unchanged_replica(target)
                if replica is None:
                    continue
                if bounds.error is ErrorCode.NONE:
                    self._process_safely(target, self._adjust_to_bounds, replica, bounds)
                else:
                    self._back_off(target.key)

        self._send(0, partial(self._leader.log_bounds, targets), process)

    def _adjust_to_bounds(self, replica: Replica, bounds: LogBounds) -> None:
        if not move_into_bounds(replica, bounds):
            self._back_off(replica.key)
        self._replicas.notify_partition(replica.key)


@dataclass(slots=True, eq=False)
class FetcherManager:
    replicas: ReplicaManager
    connect: Callable[[int], LeaderEndPoint]
    is_paused: bool
    by_leader: dict[int, Fetcher] = field(default_factory=dict)

    def add(self, key: TopicPartition, leader: int) -> None:
        fetcher = self.by_leader.get(leader)
        if fetcher is None:
            fetcher = Fetcher(self.replicas, self.connect(leader), is_paused=self.is_paused)
            self.by_leader[leader] = fetcher
        fetcher.add(key)

    def remove(self, key: TopicPartition) -> None:
        for fetcher in self.by_leader.values():
            fetcher.remove(key)

    def pause(self) -> None:
        self.is_paused = True
        for fetcher in self.by_leader.values():
            fetcher.pause()

    def resume(self) -> None:
        self.is_paused = False
        for fetcher in self.by_leader.values():
            fetcher.resume()

    def restart(self, leader: int) -> None:
        """Send the request to a leader again: the one in flight was lost with the link."""
        if leader in self.by_leader:
            self.by_leader[leader].restart()

    def close(self) -> None:
        for fetcher in self.by_leader.values():
            fetcher.close()
