"""Fetch sessions that are opened and never used: they give way."""

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
    """So many partitions; nobody looks whether they are there."""
    return [FetchTarget(TopicPartition("none", each), 0, 1) for each in range(first, first + count)]


def opened(sessions: FetchSessions, count: int) -> FetchSession:
    """A new session."""
    session = sessions.open(0, 0, targets(count), [], uses_topic_ids=False)
    assert session is not None
    return session


def held(sessions: FetchSessions) -> int:
    """How many partitions there are, counted."""
    return sum(len(session.partitions) for session in sessions._sessions.values())


def test_sessions_give_way_by_their_partitions() -> None:
    """The oldest first, until the new one has room; the count is what is there."""
    sessions = FetchSessions(slots=100, max_partitions=1_000)
    first = opened(sessions, 400)
    second = opened(sessions, 400)
    sessions.open(first.session_id, first.epoch, [], [], uses_topic_ids=False)
    opened(sessions, 600)
    assert len(sessions) == 2
    assert sessions.partitions == held(sessions) == 1_000
    with pytest.raises(FetchSessionError) as error:
        sessions.open(second.session_id, second.epoch, [], [], uses_topic_ids=False)
    assert error.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_that_grows_beyond_all_bounds_is_forgotten() -> None:
    """After the others have given way; its client is told that there is none, and begins anew."""
    sessions = FetchSessions(slots=100, max_partitions=1_000)
    opened(sessions, 100)
    growing = opened(sessions, 100)
    for step in range(1, 10):
        sessions.open(
            growing.session_id, growing.epoch, targets(100, step * 100), [], uses_topic_ids=False
        )
        assert sessions.partitions == held(sessions) <= 1_000
    with pytest.raises(FetchSessionError) as error:
        sessions.open(
            growing.session_id, growing.epoch, targets(100, 5_000), [], uses_topic_ids=False
        )
    assert error.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partitions) == (0, 0)


def test_fetch_of_too_many_partitions_gets_no_session() -> None:
    """It is answered as one that wants none."""
    sessions = FetchSessions(slots=100, max_partitions=1_000)
    assert sessions.open(0, 0, targets(1_001), [], uses_topic_ids=False) is None
    assert len(sessions) == 0


def test_partitions_that_are_forgotten_or_given_up_are_not_counted() -> None:
    """By name, with the whole session, and when its slot is needed."""
    sessions = FetchSessions(slots=2, max_partitions=1_000)
    session = opened(sessions, 10)
    sessions.open(
        session.session_id,
        session.epoch,
        [],
        [each.key for each in targets(4)],
        uses_topic_ids=False,
    )
    assert sessions.partitions == held(sessions) == 6
    opened(sessions, 10)
    opened(sessions, 10)
    assert sessions.partitions == held(sessions) == 20
    for session_id in list(sessions._sessions):
        sessions.open(session_id, -1, [], [], uses_topic_ids=False)
    assert sessions.partitions == held(sessions) == 0
