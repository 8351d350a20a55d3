"""Fetch sessions (KIP-227): a client names its partitions once, and then only what changes about them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from request_purgatory.broker.delayed import FetchedPartition, FetchTarget
from request_purgatory.broker.topics import TopicPartition
from request_purgatory.broker.wire.error_code import ErrorCode

#: What a client's epoch is if it wants no session; and if it wants one anew.
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0


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
    """The sessions of one node, of which the one that was used longest ago gives way to a new one."""

    def __init__(self, slots: int = 1_000) -> None:
        self.slots = slots
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self,
        session_id: int,
        epoch: int,
        targets: list[FetchTarget],
        forgotten: list[TopicPartition],
        *,
        uses_topic_ids: bool,
    ) -> FetchSession | None:
        """The session of a request, changed as the request asks; None for one without.

        Raises:
            FetchSessionError: the session is not known, or the epoch is not the next one.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                self._sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH or not targets:
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
        for target in targets:
            known = session.partitions.get(target.key)
            if known is None:
                session.partitions[target.key] = CachedPartition(target)
            else:
                known.target = target
        for key in forgotten:
            session.partitions.pop(key, None)
        session.epoch = _next_epoch(session.epoch)
        return session

    def _begin(self, targets: list[FetchTarget], *, uses_topic_ids: bool) -> FetchSession:
        while len(self._sessions) >= self.slots:
            del self._sessions[next(iter(self._sessions))]
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = random.randint(1, 2**31 - 1)
        session = FetchSession(session_id, INITIAL_EPOCH + 1, uses_topic_ids)
        session.partitions = {target.key: CachedPartition(target) for target in targets}
        self._sessions[session_id] = session
        return session


def _next_epoch(epoch: int) -> int:
    return 1 if epoch == 2**31 - 1 else epoch + 1


def news(session: FetchSession, fetched: list[FetchedPartition]) -> list[FetchedPartition]:
    """What of a session's partitions the client has not been told: records, errors, another high watermark or log start."""
    told = []
    for each in fetched:
        cached = session.partitions.get(each.key)
        if cached is None:
            continue
        changed = (each.high_watermark, each.log_start_offset) != (cached.high_watermark, cached.log_start_offset)
        cached.high_watermark, cached.log_start_offset = each.high_watermark, each.log_start_offset
        if each.error is not ErrorCode.NONE:
            # Told again with whatever comes next, as the client will have changed something.
            cached.high_watermark = -1
        if changed or each.records or each.error is not ErrorCode.NONE or each.diverging is not None:
            told.append(each)
            if each.records:
                # Partitions that had something go to the end, so that a limit on bytes starves none.
                session.partitions[each.key] = session.partitions.pop(each.key)
    return told
