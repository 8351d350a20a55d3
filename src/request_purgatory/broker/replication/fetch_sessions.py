"""Fetch sessions (KIP-227).

A client names its partitions once, and then only what changes about them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_fetch import FetchedPartition, FetchTarget
from request_purgatory.broker.wire.error_code import ErrorCode

#: What a client's epoch is if it wants no session; and if it wants one anew.
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0

SLOTS = 1_000
#: In all sessions of a node together, at some 500 bytes each; there need be no such partitions.
#: Kafka limits sessions only.
MAX_PARTITIONS = 200_000


class FetchSessionError(Exception):
    """A session that the node does not know, or not at this epoch."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(slots=True)
class CachedPartition:
    """A partition of a session, and what the client was told of it last."""

    target: FetchTarget
    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class FetchSession:
    """A client's session."""

    session_id: int
    #: Of the client's next request.
    epoch: int
    uses_topic_ids: bool
    partitions: dict[TopicPartition, CachedPartition] = field(default_factory=dict)


class FetchSessions:
    """The sessions of one node, of which those that were used longest ago give way to one that is new or grows."""

    def __init__(self, slots: int = SLOTS, max_partitions: int = MAX_PARTITIONS) -> None:
        self.slots = slots
        self.max_partitions = max_partitions
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """How many partitions all sessions have."""
        return self._partitions

    def open(
        self,
        session_id: int,
        epoch: int,
        targets: list[FetchTarget],
        forgotten: list[TopicPartition],
        *,
        uses_topic_ids: bool,
    ) -> FetchSession | None:
        """The session of a request, changed as the request asks; None for one without, or one of too many partitions.

        Raises:
            FetchSessionError: the session is not known, or the epoch is not the next one.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._drop(session_id)
            if epoch == FINAL_EPOCH or not targets or len(targets) > self.max_partitions:
                return None
            return self._begin(targets, uses_topic_ids=uses_topic_ids)
        session = self._sessions.pop(session_id, None)
        if session is None:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._sessions[session_id] = session  # The last one that was used.
        if session.epoch != epoch:
            raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        before = len(session.partitions)
        for target in targets:
            known = session.partitions.get(target.key)
            if known is None:
                session.partitions[target.key] = CachedPartition(target)
            else:
                known.target = target
        for key in forgotten:
            session.partitions.pop(key, None)
        self._partitions += len(session.partitions) - before
        self._make_room(0, besides=session_id)
        if self._partitions > self.max_partitions:
            self._drop(session_id)
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = _next_epoch(session.epoch)
        return session

    def _begin(self, targets: list[FetchTarget], *, uses_topic_ids: bool) -> FetchSession:
        self._make_room(len(targets))
        while len(self._sessions) >= self.slots:
            self._drop(next(iter(self._sessions)))
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = random.randint(1, 2**31 - 1)
        session = FetchSession(session_id, INITIAL_EPOCH + 1, uses_topic_ids)
        session.partitions = {target.key: CachedPartition(target) for target in targets}
        self._sessions[session_id] = session
        self._partitions += len(session.partitions)
        return session

    def _make_room(self, partitions: int, *, besides: int = NO_SESSION) -> None:
        """Drop the oldest sessions until there is room for so many partitions more, or only one is left that is not to go."""
        if self._partitions + partitions <= self.max_partitions:
            return
        for session_id in list(self._sessions):
            if self._partitions + partitions <= self.max_partitions:
                return
            if session_id != besides:
                self._drop(session_id)

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)


def _next_epoch(epoch: int) -> int:
    return 1 if epoch == 2**31 - 1 else epoch + 1


def news(session: FetchSession, fetched: list[FetchedPartition]) -> list[FetchedPartition]:
    """What of a session's partitions the client has not been told.

    Records, errors, another high watermark or log start.
    """
    told = []
    for each in fetched:
        cached = session.partitions.get(each.key)
        if cached is None:
            continue
        changed = (each.high_watermark, each.log_start_offset) != (
            cached.high_watermark,
            cached.log_start_offset,
        )
        cached.high_watermark, cached.log_start_offset = each.high_watermark, each.log_start_offset
        if each.error is not ErrorCode.NONE:
            # Told again with whatever comes next, as the client will have changed something.
            cached.high_watermark = -1
        if (
            changed
            or each.records
            or each.error is not ErrorCode.NONE
            or each.diverging is not None
        ):
            told.append(each)
            if each.records:
                # Partitions that had something go to the end, so that a limit on bytes starves
                # none.
                session.partitions[each.key] = session.partitions.pop(each.key)
    return told
