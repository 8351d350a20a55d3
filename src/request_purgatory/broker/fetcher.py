"""A follower's fetcher: takes over what the leader has, by Fetch, as Kafka's replica fetcher threads do."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from request_purgatory.broker.delayed import DelayedFetch, FetchedPartition, FetchParams, FetchTarget
from request_purgatory.broker.log import RecordError
from request_purgatory.broker.replica import Replica
from request_purgatory.broker.topics import TopicPartition
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.broker.node import Node

logger = logging.getLogger(__name__)

#: After an error, before the next fetch: Kafka's `replica.fetch.backoff.ms`.
BACKOFF_MS = 1_000
#: A fetch that is not answered for so long past its time is given up: Kafka's `replica.socket.timeout.ms`, less patiently.
ANSWER_MS = 1_000


class Fetcher:
    """Fetches from one leader all the partitions that a node follows it in, one request at a time."""

    def __init__(self, node: Node, leader: int) -> None:
        self.node = node
        self.leader = leader
        self.is_frozen = False
        self._keys: dict[TopicPartition, None] = {}
        #: The request that is out; answers of earlier ones are not listened to.
        self._request = 0
        self._parked: DelayedFetch | None = None
        self._planned: asyncio.TimerHandle | asyncio.Handle | None = None
        self._overdue: asyncio.TimerHandle | None = None

    # -- which partitions

    def add(self, key: TopicPartition) -> None:
        """One more partition to fetch, now."""
        self._keys[key] = None
        self._again()

    def remove(self, key: TopicPartition) -> None:
        """One less."""
        if key in self._keys:
            del self._keys[key]
            self._again()

    def freeze(self) -> None:
        """Fetch no more until `thaw`."""
        self.is_frozen = True
        self._drop()

    def thaw(self) -> None:
        """Go on after `freeze`."""
        self.is_frozen = False
        self._again()

    def close(self) -> None:
        """Fetch no more."""
        self._keys.clear()
        self._drop()

    # -- one request after the other

    def _again(self) -> None:
        """Give the present request up, whose partitions are not the right ones any more, and send another."""
        self._drop()
        self._plan(0)

    def _drop(self) -> None:
        self._request += 1
        if self._parked is not None:
            # In Kafka a new connection would leave the old request to its timeout.
            self._parked.cancel()
            self._parked = None
        for handle in (self._planned, self._overdue):
            if handle is not None:
                handle.cancel()
        self._planned = self._overdue = None

    def _plan(self, delay_ms: int) -> None:
        if self._planned is None and not self.is_frozen and self._keys and not self.node.is_stopped:
            loop = asyncio.get_running_loop()
            self._planned = loop.call_later(delay_ms / 1_000, self._fetch) if delay_ms else loop.call_soon(self._fetch)

    def _fetch(self) -> None:
        self._planned = None
        targets = []
        for key in self._keys:
            replica = self.node.replicas.find(key)
            if replica is not None and replica.leader == self.leader and not replica.is_leader:
                log = replica.log
                maximum = self.node.settings.replica_fetch_max_bytes
                targets.append(
                    FetchTarget(key, log.end_offset, maximum, replica.leader_epoch, log.latest_epoch, log.log_start_offset)
                )
        if not targets:
            return
        settings = self.node.settings
        params = FetchParams(
            self.node.node_id, settings.replica_fetch_wait_max_ms, settings.replica_fetch_min_bytes, settings.fetch_max_bytes
        )
        self._request += 1
        request = self._request
        node, leader, network = self.node, self.node.cluster.nodes[self.leader], self.node.cluster.network

        def arrive() -> None:
            if leader.is_stopped or request != self._request:
                return
            with leader.actions:
                self._parked = leader.replicas.fetch(params, targets, answer)

        def answer(fetched: list[FetchedPartition]) -> None:
            network.send(self.leader, node.node_id, lambda: self._take(request, targets, fetched))

        network.send(node.node_id, self.leader, arrive)
        wait_ms = params.max_wait_ms + ANSWER_MS
        self._overdue = asyncio.get_running_loop().call_later(wait_ms / 1_000, self._again)

    def _take(self, request: int, targets: list[FetchTarget], fetched: list[FetchedPartition]) -> None:
        if request != self._request or self.is_frozen or self.node.is_stopped:
            return
        self._parked = None
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        failed = False
        with self.node.actions:
            for target, partition in zip(targets, fetched, strict=True):
                replica = self.node.replicas.find(target.key)
                if replica is None or replica.is_leader or replica.leader_epoch != target.current_leader_epoch:
                    continue
                failed = not self._take_partition(replica, target, partition) or failed
        self._plan(BACKOFF_MS if failed else 0)

    def _take_partition(self, replica: Replica, target: FetchTarget, fetched: FetchedPartition) -> bool:
        """Append what came, or cut what the leader has not; False if the leader is to be left alone for a while."""
        if replica.log.end_offset != target.offset:
            return True  # The log was cut meanwhile: fetch again from where it ends.
        if fetched.diverging is not None:
            epoch, end = fetched.diverging
            self._cut(replica, epoch, end)
            return True
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._start_over(replica)
        if fetched.error is not ErrorCode.NONE:
            return False
        try:
            if fetched.records:
                replica.log.append_as_follower(fetched.records)
        except RecordError:
            logger.exception("node %d can't append to %s", self.node.node_id, replica.key)
            return False
        if fetched.log_start_offset > replica.log.log_start_offset:
            replica.log.advance_start(min(fetched.log_start_offset, replica.log.end_offset))
        replica.follow(fetched.high_watermark)
        return True

    def _cut(self, replica: Replica, epoch: int, end: int) -> None:
        """Cut the log to where it can agree with the leader's: the leader's end of that epoch, or this log's, if that is less."""
        own_epoch, own_end = replica.log.epoch_end(epoch)
        if end < 0:
            replica.truncate(replica.high_watermark)
        elif own_end >= 0 and own_epoch == epoch:
            replica.truncate(min(end, own_end))
        elif own_end >= 0:
            # This log has nothing of that epoch: what it has after the epoch before is not the leader's.
            replica.truncate(min(own_end, end))
        else:
            replica.truncate(max(replica.log.log_start_offset, min(end, replica.high_watermark)))

    def _start_over(self, replica: Replica) -> bool:
        """The offset is not in the leader's log: it has let go of what is missing here, or ends before."""
        leader = self.node.cluster.nodes[self.leader].replicas.find(replica.key)
        if leader is None or not self.node.cluster.network.is_connected(self.node.node_id, self.leader):
            return False
        if replica.log.end_offset > leader.log.end_offset:
            logger.warning("%s: node %d is ahead of its leader, and cuts its log", replica.key, self.node.node_id)
            replica.truncate(leader.log.end_offset)
        else:
            replica.log.truncate_fully(leader.log.log_start_offset)
            replica.high_watermark = leader.log.log_start_offset
        return True
