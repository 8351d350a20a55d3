"""The delayed operation of a fetch request: wait for `min_bytes`, or for a change to respond to."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.aborted_transactions import AbortedTransaction
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.replica import Replica
from request_purgatory.purgatory.operation import DelayedOperation


class FetchTarget(NamedTuple):
    key: TopicPartition
    offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    #: The start of a follower's log; -1 for consumers.
    log_start_offset: int = -1
    #: Set by followers: a topic that was deleted and created again has the same name, and may be in
    #: the same leader epoch.
    topic_id: uuid.UUID | None = None


class FetchParams(NamedTuple):
    #: The node that fetches as a follower; negative for consumers.
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    #: False if a follower may respond too, with the records below its high watermark (KIP-392).
    leader_only: bool = True
    #: A consumer that reads what is committed: `isolation.level` of its request.
    read_committed: bool = False

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0

    def limit_offset(self, replica: Replica) -> int:
        """Return the offset up to which the fetch reads: a follower's, to the log's end."""
        if self.is_follower:
            return replica.log.end_offset
        return replica.last_stable_offset if self.read_committed else replica.high_watermark


@dataclass(slots=True)
class FetchedPartition:
    key: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    last_stable_offset: int = -1
    records: bytes = b""
    #: Those with records in `records`; None unless the fetch is read_committed.
    aborted: list[AbortedTransaction] | None = None
    #: Where the fetcher's log diverges from the leader's: an epoch and its end offset (KIP-595).
    diverging: tuple[int, int] | None = None


@dataclass(slots=True)
class FetchExpirations:
    follower: int = 0
    consumer: int = 0


class SharedResult(list[FetchedPartition]):
    """What several fetches may have read, without an error; must not be changed.

    Attributes:
        answers: What was made of it, by the version of the response.
    """

    __slots__ = ("answers",)

    def __init__(self, fetched: Iterable[FetchedPartition]) -> None:
        super().__init__(fetched)
        self.answers: dict[int, Any] = {}


class LastRead(NamedTuple):
    """What a fetch has read: also the result of the same fetch until anything changes."""

    change_count: int
    params: FetchParams
    targets: list[FetchTarget]
    fetched: list[FetchedPartition]


class Reader(Protocol):
    """One that repeats its fetches, and keeps the last result if that has no records."""

    last_read: LastRead | None


class _Changes(Protocol):
    change_count: int


class _Fetches(Protocol):
    expirations: FetchExpirations

    @property
    def replicas(self) -> _Changes: ...

    def is_complete(self, params: FetchParams, targets: list[FetchTarget]) -> bool: ...

    def respond(self, operation: DelayedFetch) -> None: ...


class DelayedFetch(DelayedOperation):
    """Waits until the partitions have `min_bytes` together, or one needs a response earlier.

    The watch keys are the partitions. At its end, by completion or by timeout, the log is read
    again, unless nothing has changed since the fetch was read and had nothing.
    """

    __slots__ = (
        "fetches",
        "nothing",
        "params",
        "reader",
        "reply",
        "seen_change_count",
        "targets",
    )

    def __init__(
        self,
        params: FetchParams,
        targets: list[FetchTarget],
        fetches: _Fetches,
        reply: Callable[[list[FetchedPartition]], None],
        reader: Reader | None = None,
        nothing: LastRead | None = None,
    ) -> None:
        super().__init__(params.max_wait_ms)
        self.params = params
        self.targets = targets
        self.fetches = fetches
        self.reply = reply
        self.reader = reader
        #: The read before the wait, if it has found no records.
        self.nothing = nothing
        #: The fetches' `change_count` at the last attempt.
        self.seen_change_count = -1

    def try_complete(self) -> bool:
        """Complete the fetch if there are enough bytes, or a partition needs a response."""
        change_count = self.fetches.replicas.change_count
        if change_count == self.seen_change_count:
            # A request that changes 1,000 partitions notifies 1,000 keys, and this operation may
            # watch each of them: one attempt is enough.
            return False
        self.seen_change_count = change_count
        return self.fetches.is_complete(self.params, self.targets) and self.force_complete()

    def on_complete(self) -> None:
        self.fetches.respond(self)

    def on_expiration(self) -> None:
        if self.params.is_follower:
            self.fetches.expirations.follower += 1
        else:
            self.fetches.expirations.consumer += 1


class FetchCondition(NamedTuple):
    """Whether a fetch is to be answered before its time.

    It is the same for fetches that ask for the same, until anything changes.
    """

    params: FetchParams
    targets: list[FetchTarget]
    find: Callable[[TopicPartition], Replica | None]

    def holds(self) -> bool:
        """Return whether there are enough bytes, or a partition needs a response.

        The cases are those of Kafka's DelayedFetch (core/src/main/scala/kafka/server):

        - A: this node no longer leads a partition, and only the leader may respond.
        - B, C: this node no longer has the replica, or the topic was deleted (and maybe created
          again).
        - D: Kafka's offline log directory does not exist here.
        - E: the leader epoch is no longer the one in the request.
        - F: the log was truncated below the offset, or what is committed ends before it. (Kafka
          also completes when the offset is on an older segment, which it must read first; here
          `bytes_between` counts across segments.) In addition: records at the offset were deleted.
        - G: the partitions have `min_bytes` together.
        - H: the fetcher's log diverges from the leader's.

        Example: `min_bytes` is 100. An append of 60 bytes to partition 0 notifies key 0: 60 < 100,
        so the fetch waits on. An append of 50 bytes to partition 1 notifies key 1: 110 >= 100, case
        G.
        """
        available = 0
        for target in self.targets:
            replica = self.find(target.key)
            if replica is None or self._needs_response(replica, target):
                return True
            limit = self.params.limit_offset(replica)
            if limit > target.offset:
                size = replica.log.bytes_between(target.offset, limit)
                available += min(size, target.max_bytes)
            if available >= self.params.min_bytes:
                return True  # Case G
        return False

    def _needs_response(self, replica: Replica, target: FetchTarget) -> bool:
        if target.topic_id not in (None, replica.topic_id):  # Cases B and C
            return True
        if not replica.is_leader and self.params.leader_only:  # Case A
            return True
        if 0 <= target.current_leader_epoch != replica.leader_epoch:  # Case E
            return True
        log = replica.log
        if not log.log_start_offset <= target.offset <= log.end_offset:  # Case F
            return True
        if self.params.read_committed and target.offset > self.params.limit_offset(replica):
            return True
        if target.last_fetched_epoch in (-1, log.latest_epoch):
            return False
        return diverging_epoch(replica, target) is not None  # Case H


def diverging_epoch(replica: Replica, target: FetchTarget) -> tuple[int, int] | None:
    """Return the last epoch that both logs may have, and its end; None if none diverges."""
    if target.last_fetched_epoch < 0:
        return None
    epoch, end = replica.log.end_offset_for_epoch(target.last_fetched_epoch)
    if end < 0 or epoch < target.last_fetched_epoch or end < target.offset:
        return epoch, end
    return None
