"""A follower's fetcher.

Takes over what the leader has, by Fetch, as Kafka's replica fetcher threads do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from request_purgatory.broker.log import RecordError
from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_fetch import (
    DelayedFetch,
    FetchedPartition,
    FetchParams,
    FetchTarget,
)
from request_purgatory.broker.replication.replica import Replica
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.node import Node
    from request_purgatory.broker.replication.replica_manager import LogBounds

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: After an error with a partition, before it is fetched again: Kafka's `replica.fetch.backoff.ms`.
BACKOFF_MS = 1_000
#: A request that is not answered for so long past its time is given up: Kafka's
#: `replica.socket.timeout.ms`.
ANSWER_MS = 30_000


class Fetcher:
    """Fetches from one leader all the partitions that a node follows it in, one request at a time.

    All that it knows of the leader comes by messages: it asks by Fetch, and, where its offset is
    out of the leader's range, by ListOffsets.
    """

    def __init__(self, node: Node, leader: int) -> None:
        self.node = node
        self.leader = leader
        self.is_frozen = False
        #: The partitions, and since when, by the loop's time in milliseconds, each may be fetched
        #: (again).
        self._keys: dict[TopicPartition, int] = {}
        #: The request that is out; answers of earlier ones are not listened to.
        self._request = 0
        self._parked: DelayedFetch | None = None
        self._planned: asyncio.TimerHandle | asyncio.Handle | None = None
        self._overdue: asyncio.TimerHandle | None = None

    # -- which partitions

    def add(self, key: TopicPartition) -> None:
        """One more partition to fetch, now."""
        self._keys[key] = 0
        self.again()

    def remove(self, key: TopicPartition) -> None:
        """One less."""
        if key in self._keys:
            del self._keys[key]
            self.again()

    def freeze(self) -> None:
        """Fetch no more until `thaw`."""
        self.is_frozen = True
        self._drop()

    def thaw(self) -> None:
        """Go on after `freeze`."""
        self.is_frozen = False
        self.again()

    def close(self) -> None:
        """Fetch no more."""
        self._keys.clear()
        self._drop()

    # -- one request after the other

    def again(self) -> None:
        """Give the present request up, which is not the right one any more or went over a link that was cut, and send another."""
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
        """Fetch after a while, unless that is planned already, a request is out, or there is nothing to be fetched."""
        if self._may_fetch:
            loop = asyncio.get_running_loop()
            self._planned = (
                loop.call_later(delay_ms / 1_000, self._fetch)
                if delay_ms
                else loop.call_soon(self._fetch)
            )

    @property
    def _may_fetch(self) -> bool:
        if self._planned is not None or self._overdue is not None:
            return False
        return not self.is_frozen and bool(self._keys) and not self.node.is_stopped

    def _fetch(self) -> None:
        self._planned = None
        now_ms = self.node.now_ms()
        targets = [self._target(key) for key, since_ms in self._keys.items() if since_ms <= now_ms]
        settings = self.node.settings
        params = FetchParams(
            self.node.node_id,
            settings.replica_fetch_wait_max_ms,
            settings.replica_fetch_min_bytes,
            settings.fetch_max_bytes,
        )
        if not targets:
            self._plan(max(1, min(self._keys.values(), default=now_ms) - now_ms))
            return

        def ask(answer: Callable[[list[FetchedPartition]], None]) -> None:
            self._parked = leader.replicas.fetch(params, targets, answer)

        leader = self.node.cluster.nodes[self.leader]
        self._send(params.max_wait_ms, ask, lambda fetched: self._take(targets, fetched))

    def _target(self, key: TopicPartition) -> FetchTarget:
        replica = self.node.replicas.replicas[key]
        log = replica.log
        return FetchTarget(
            key,
            log.end_offset,
            self.node.settings.replica_fetch_max_bytes,
            replica.leader_epoch,
            log.latest_epoch,
            log.log_start_offset,
            replica.topic_id,
        )

    def _send(
        self, wait_ms: int, ask: Callable[[Callable[[T], None]], None], take: Callable[[T], None]
    ) -> None:
        """Have the leader asked, and what it answers taken, unless it is not heard of in time or the request is given up."""
        self._request += 1
        request = self._request
        node, leader, network = (
            self.node,
            self.node.cluster.nodes[self.leader],
            self.node.cluster.network,
        )

        def arrive() -> None:
            if leader.is_stopped or request != self._request:
                return
            with leader.actions:
                ask(answer)

        def answer(answered: T) -> None:
            network.send(self.leader, node.node_id, lambda: returned(answered))

        def returned(answered: T) -> None:
            if request != self._request or self.is_frozen or node.is_stopped:
                return
            self._drop()
            try:
                with node.actions:
                    take(answered)
            finally:
                if self._may_fetch:
                    self._fetch()  # At once, not in the loop's next round: what was appended here is waited for.

        network.send(node.node_id, self.leader, arrive)
        self._overdue = asyncio.get_running_loop().call_later(
            (wait_ms + ANSWER_MS) / 1_000, self.again
        )

    # -- answers

    def _take(self, targets: list[FetchTarget], fetched: list[FetchedPartition]) -> None:
        out_of_range = []
        for target, partition in zip(targets, fetched, strict=True):
            replica = self._still_asked_of(target)
            if replica is None:
                continue
            if partition.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                out_of_range.append(target)
            elif partition.error is not ErrorCode.NONE:
                logger.debug(
                    "node %d: %d answers %s for %s",
                    self.node.node_id,
                    self.leader,
                    partition.error.name,
                    target,
                )
                self._leave_alone(target.key)
            else:
                self._contained(target, self._take_partition, replica, partition)
        if out_of_range:
            self._ask_bounds(out_of_range)

    def _still_asked_of(self, target: FetchTarget) -> Replica | None:
        """The replica that an answer is for, if nothing has happened to it since it asked."""
        replica = self.node.replicas.find(target.key)
        if replica is None or replica.topic_id != target.topic_id or target.key not in self._keys:
            return None
        asked = (target.current_leader_epoch, target.offset, target.last_fetched_epoch)
        present = (replica.leader_epoch, replica.log.end_offset, replica.log.latest_epoch)
        return replica if asked == present else None

    def _contained(
        self, target: FetchTarget, take: Callable[[Replica, T], None], replica: Replica, answered: T
    ) -> None:
        """Take what came for a partition; what is wrong with one does the others no harm."""
        try:
            take(replica, answered)
        except RecordError as error:
            logger.warning(
                "node %d can't follow %d in %s: %s",
                self.node.node_id,
                self.leader,
                target.key,
                error,
            )
            self._leave_alone(target.key)
        except Exception:
            logger.exception(
                "node %d can't follow %d in %s", self.node.node_id, self.leader, target.key
            )
            self._leave_alone(target.key)

    def _leave_alone(self, key: TopicPartition) -> None:
        self._keys[key] = self.node.now_ms() + BACKOFF_MS

    def _take_partition(self, replica: Replica, fetched: FetchedPartition) -> None:
        """Append what came, or cut what the leader has not."""
        if fetched.diverging is not None:
            replica.truncate(self._parting(replica, *fetched.diverging))
            self.node.replicas.wake(replica.key)
            return
        start_offset = fetched.log_start_offset
        if start_offset == replica.log.end_offset:
            # The leader has nothing left of what is here, and this log may have parted from it
            # there: before the append, since the leader's start may lie inside its first batch,
            # which begins before this log's end then.
            replica.log.advance_start(start_offset)
        if fetched.records:
            replica.log.append_as_follower(fetched.records, max_epoch=replica.leader_epoch)
        if start_offset > replica.log.log_start_offset:
            replica.log.advance_start(min(start_offset, replica.log.end_offset))
        if replica.follow(fetched.high_watermark):
            # Consumers may read from followers (KIP-392).
            self.node.replicas.wake(replica.key)

    @staticmethod
    def _parting(replica: Replica, epoch: int, end: int) -> int:
        """Up to where a log may agree with the leader's, whose largest epoch that is not larger than this log's ends at `end`.

        Where this log has nothing of that epoch, it is where the epoch before ends here: the next
        fetch tells whether that is enough.
        """
        own_end = replica.log.epoch_end(epoch)[1]
        return end if own_end < 0 else min(end, own_end)

    def _ask_bounds(self, targets: list[FetchTarget]) -> None:
        """Ask where the leader's logs begin and end; fetch again when that is known."""
        leader = self.node.cluster.nodes[self.leader]

        def ask(answer: Callable[[list[LogBounds]], None]) -> None:
            answer([leader.replicas.bounds(target) for target in targets])

        def take(answered: list[LogBounds]) -> None:
            for target, bounds in zip(targets, answered, strict=True):
                replica = self._still_asked_of(target)
                if replica is None:
                    continue
                if bounds.error is ErrorCode.NONE:
                    self._contained(target, self._start_over, replica, bounds)
                else:
                    self._leave_alone(target.key)

        self._send(0, ask, take)

    def _start_over(self, replica: Replica, bounds: LogBounds) -> None:
        """The leader has let go of what is missing here, or its log ends before this one."""
        end = replica.log.end_offset
        if end > bounds.end_offset:
            logger.warning(
                "%s: node %d is ahead of its leader, and cuts its log",
                replica.key,
                self.node.node_id,
            )
            replica.truncate(bounds.end_offset)
        elif end < bounds.log_start_offset:
            logger.info(
                "%s: node %d has nothing left that its leader has, and begins anew",
                replica.key,
                self.node.node_id,
            )
            replica.start_at(bounds.log_start_offset)
        else:
            # The leader has got so far meanwhile, or knows this log's epoch no better than before.
            self._leave_alone(replica.key)
        self.node.replicas.wake(replica.key)
