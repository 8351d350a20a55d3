"""Fetch sessions that are opened and not used."""

from __future__ import annotations

import pytest

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_fetch import FetchTarget
from request_purgatory.broker.replication.fetch_sessions import (
    FetchSession,
    FetchSessionError,
    FetchSessions,
)
from request_purgatory.broker.wire.error_code import ErrorCode


def targets(count: int, first: int = 0) -> list[FetchTarget]:
    """Return this number of partitions, which need not exist."""
    return [FetchTarget(TopicPartition("none", each), 0, 1) for each in range(first, first + count)]


def new_session(sessions: FetchSessions, count: int) -> FetchSession:
    """Open a new session."""
    session = sessions.open(0, 0, targets(count), [], uses_topic_ids=False)
    assert session is not None
    return session


def count_partitions(sessions: FetchSessions) -> int:
    """Count the partitions of all sessions."""
    return sum(len(session.partitions) for session in sessions._sessions.values())


def test_oldest_sessions_are_evicted() -> None:
    """The new session has room, and the count of partitions is right."""
    sessions = FetchSessions(slots=100, max_partitions=1_000)
    first = new_session(sessions, 400)
    second = new_session(sessions, 400)
    sessions.open(first.session_id, first.epoch, [], [], uses_topic_ids=False)
    new_session(sessions, 600)
    assert len(sessions) == 2
    assert sessions.partitions == count_partitions(sessions) == 1_000
    with pytest.raises(FetchSessionError) as error:
        sessions.open(second.session_id, second.epoch, [], [], uses_topic_ids=False)
    assert error.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_beyond_the_limit_is_evicted() -> None:
    """The others are evicted first. Its client opens a new session."""
    sessions = FetchSessions(slots=100, max_partitions=1_000)
    new_session(sessions, 100)
    growing = new_session(sessions, 100)
    for step in range(1, 10):
        sessions.open(
            growing.session_id, growing.epoch, targets(100, step * 100), [], uses_topic_ids=False
        )
        assert sessions.partitions == count_partitions(sessions) <= 1_000
    with pytest.raises(FetchSessionError) as error:
        sessions.open(
            growing.session_id, growing.epoch, targets(100, 5_000), [], uses_topic_ids=False
        )
    assert error.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partitions) == (0, 0)


def test_fetch_of_too_many_partitions_gets_no_session() -> None:
    """It is handled as a fetch without a session."""
    sessions = FetchSessions(slots=100, max_partitions=1_000)
    assert sessions.open(0, 0, targets(1_001), [], uses_topic_ids=False) is None
    assert len(sessions) == 0


def test_removed_partitions_are_not_counted() -> None:
    """They are removed by name, with their session, or when the session is evicted."""
    sessions = FetchSessions(slots=2, max_partitions=1_000)
    session = new_session(sessions, 10)
    sessions.open(
        session.session_id,
        session.epoch,
        [],
        [each.key for each in targets(4)],
        uses_topic_ids=False,
    )
    assert sessions.partitions == count_partitions(sessions) == 6
    new_session(sessions, 10)
    new_session(sessions, 10)
    assert sessions.partitions == count_partitions(sessions) == 20
    for session_id in list(sessions._sessions):
        sessions.open(session_id, -1, [], [], uses_topic_ids=False)
    assert sessions.partitions == count_partitions(sessions) == 0
