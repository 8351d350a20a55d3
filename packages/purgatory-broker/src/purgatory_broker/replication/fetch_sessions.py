"""Incremental fetch sessions (KIP-227).

A client lists its partitions in a session's first request. Later requests list only the changes,
and responses contain only the partitions that have changed.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from purgatory_broker._wire.error_code import CodedError, ErrorCode
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_fetch import FetchedPartition, FetchTarget, LastRead

#: The epoch of a request that ends its session or has none.
FINAL_EPOCH = -1
#: The epoch of a request that opens a session.
INITIAL_EPOCH = 0
NO_SESSION = 0

#: Sessions of a node: Kafka's `max.incremental.fetch.session.cache.slots`.
SLOTS = 1_000
#: How long a session keeps its slot from others: Kafka's
#: `min.incremental.fetch.session.eviction.ms`.
MIN_EVICTION_MS = 120_000
#: Partitions in all sessions of a node together, at about 500 bytes each. Kafka limits sessions
#: only, but a session may list partitions that do not exist.
MAX_PARTITIONS = 200_000


class FetchSessionError(CodedError):
    """A request does not fit any session of this node."""


@dataclass(slots=True)
class _CachedPartition:
    """A partition of a session, with the offsets in the last response to the client."""

    target: FetchTarget
    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class FetchSession:
    session_id: int
    #: The epoch of the client's next request.
    epoch: int
    uses_topic_ids: bool
    created_ms: int
    used_ms: int
    partitions: dict[TopicPartition, _CachedPartition] = field(default_factory=dict)
    #: The number of partitions at its last use, once larger sessions may replace it.
    replaceable_size: int | None = None
    #: As the session's fetches read it. None once anything has changed in it.
    targets: list[FetchTarget] | None = None
    last_read: LastRead | None = None
    #: What the client has been told of `last_read`: the same again is no change.
    told: Sequence[FetchedPartition] | None = None

    def current_targets(self) -> list[FetchTarget]:
        """Return the targets of all partitions: the same list, as long as they are the same."""
        targets = self.targets
        if targets is None:
            targets = self.targets = [cached.target for cached in self.partitions.values()]
        return targets

    def forget_targets(self) -> None:
        self.targets = self.last_read = self.told = None


class FetchSessions:
    """The fetch sessions of one node.

    A new session takes a free slot. If there is none, it takes that of a session that has not been
    used for MIN_EVICTION_MS, or of a smaller one that exists for that long. Otherwise its client
    fetches without a session. So more clients than slots do not evict one another at each fetch.
    The rule is that of Kafka's FetchSessionCache (org.apache.kafka.server).

    To limit memory, there are at most `max_partitions`: beyond them, the sessions that were used
    the longest time ago are evicted.
    """

    def __init__(self, slots: int = SLOTS, max_partitions: int = MAX_PARTITIONS) -> None:
        """Create a cache of at most `slots` sessions, with at most `max_partitions` together."""
        self.slots = slots
        self.max_partitions = max_partitions
        #: In the order of their last use.
        self._sessions: dict[int, FetchSession] = {}
        #: Those of all sessions together.
        self.num_partitions = 0
        #: The sessions that larger ones may replace, by size.
        self._replaceable: dict[int, dict[int, FetchSession]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions_of(self, session_id: int) -> Collection[TopicPartition]:
        session = self._sessions.get(session_id)
        return () if session is None else session.partitions.keys()

    def open(
        self,
        session_id: int,
        epoch: int,
        targets: list[FetchTarget],
        forgotten: list[TopicPartition],
        *,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchSession | None:
        """Return None if the request ends or has no session, or finds no slot for one."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._drop(session_id)
            if epoch == FINAL_EPOCH or not targets or len(targets) > self.max_partitions:
                return None
            return self._create(targets, now_ms, uses_topic_ids=uses_topic_ids)
        session = self._sessions.pop(session_id, None)
        if session is None:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._sessions[session_id] = session  # Now the most recently used one.
        if session.epoch != epoch:
            raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if targets or forgotten:
            self._change(session, targets, forgotten)
        session.epoch = 1 if session.epoch == 2**31 - 1 else session.epoch + 1
        self._touch(session, now_ms)
        return session

    def _change(
        self, session: FetchSession, targets: list[FetchTarget], forgotten: list[TopicPartition]
    ) -> None:
        before = len(session.partitions)
        for target in targets:
            known = session.partitions.get(target.key)
            if known is None:
                session.partitions[target.key] = _CachedPartition(target)
            else:
                known.target = target
        for key in forgotten:
            session.partitions.pop(key, None)
        session.forget_targets()
        self.num_partitions += len(session.partitions) - before
        self._evict(0, keep=session.session_id)
        if self.num_partitions > self.max_partitions:
            self._drop(session.session_id)
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _create(
        self, targets: list[FetchTarget], now_ms: int, *, uses_topic_ids: bool
    ) -> FetchSession | None:
        if len(self._sessions) >= self.slots and not self._free_slot(len(targets), now_ms):
            return None
        self._evict(len(targets))
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = random.randint(1, 2**31 - 1)
        session = FetchSession(session_id, INITIAL_EPOCH + 1, uses_topic_ids, now_ms, now_ms)
        session.partitions = {target.key: _CachedPartition(target) for target in targets}
        self._sessions[session_id] = session
        self.num_partitions += len(session.partitions)
        return session

    def _free_slot(self, size: int, now_ms: int) -> bool:
        """Return whether a session was evicted for a new one with `size` partitions."""
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > MIN_EVICTION_MS:
            self._drop(oldest.session_id)
            return True
        smallest = min(self._replaceable, default=size)
        if smallest >= size:
            return False
        self._drop(next(iter(self._replaceable[smallest])))
        return True

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        session.used_ms = now_ms
        if now_ms - session.created_ms > MIN_EVICTION_MS:
            size = len(session.partitions)
            if session.replaceable_size != size:
                self._keep(session)
                session.replaceable_size = size
                self._replaceable.setdefault(size, {})[session.session_id] = session

    def _keep(self, session: FetchSession) -> None:
        if session.replaceable_size is not None:
            same_size = self._replaceable[session.replaceable_size]
            del same_size[session.session_id]
            if not same_size:
                del self._replaceable[session.replaceable_size]
            session.replaceable_size = None

    def _evict(self, partitions: int, *, keep: int = NO_SESSION) -> None:
        """Drop the least recently used sessions, except `keep`, until `partitions` more fit."""
        if self.num_partitions + partitions <= self.max_partitions:
            return
        for session_id in list(self._sessions):
            if self.num_partitions + partitions <= self.max_partitions:
                return
            if session_id != keep:
                self._drop(session_id)

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.num_partitions -= len(session.partitions)
            self._keep(session)


def changed_partitions(
    session: FetchSession, fetched: list[FetchedPartition]
) -> list[FetchedPartition]:
    """Return what differs from the previous response, or has records or an error."""
    if fetched is session.told:
        return []
    changed = []
    is_told = True
    for result in fetched:
        cached = session.partitions.get(result.key)
        if cached is None:
            continue
        offsets = (result.high_watermark, result.log_start_offset)
        has_moved = offsets != (cached.high_watermark, cached.log_start_offset)
        cached.high_watermark, cached.log_start_offset = offsets
        if result.error is not ErrorCode.NONE:
            # Include the partition in the next response too: its error may be over by then.
            cached.high_watermark = -1
        is_repeated = (
            result.records or result.error is not ErrorCode.NONE or result.diverging is not None
        )
        if is_repeated:
            is_told = False
        if is_repeated or has_moved:
            changed.append(result)
            if result.records:
                # Read this partition last in the next request, so that the limit on bytes does not
                # starve the others.
                session.partitions[result.key] = session.partitions.pop(result.key)
                session.forget_targets()
    session.told = fetched if is_told else None
    # The same list if all of it has changed: other sessions may have it, too.
    return fetched if len(changed) == len(fetched) else changed
