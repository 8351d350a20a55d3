"""Fetch sessions that are opened and not used."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_fetch import FetchTarget
from purgatory_broker.replication.fetch_sessions import (
    MIN_EVICTION_MS,
    FetchSession,
    FetchSessionError,
    FetchSessions,
)


def targets(count: int, first: int = 0) -> list[FetchTarget]:
    """Return this number of partitions, which need not exist."""
    return [FetchTarget(TopicPartition("none", each), 0, 1) for each in range(first, first + count)]


def new_session(sessions: FetchSessions, count: int, now_ms: int = 0) -> FetchSession:
    """Open a new session."""
    session = sessions.open(0, 0, targets(count), [], uses_topic_ids=False, now_ms=now_ms)
    assert session is not None
    return session


def use(sessions: FetchSessions, session: FetchSession, now_ms: int) -> None:
    """Fetch once more in a session."""
    sessions.open(session.session_id, session.epoch, [], [], uses_topic_ids=False, now_ms=now_ms)


def count_partitions(sessions: FetchSessions) -> int:
    """Count the partitions of all sessions."""
    return sum(len(session.partitions) for session in sessions._sessions.values())


def test_oldest_sessions_are_evicted() -> None:
    sessions = FetchSessions(slots=100, max_partitions=1_000)
    first = new_session(sessions, 400)
    second = new_session(sessions, 400)
    sessions.open(first.session_id, first.epoch, [], [], uses_topic_ids=False, now_ms=0)
    new_session(sessions, 600)
    assert len(sessions) == 2
    assert sessions.num_partitions == count_partitions(sessions) == 1_000
    with pytest.raises(FetchSessionError) as error:
        sessions.open(second.session_id, second.epoch, [], [], uses_topic_ids=False, now_ms=0)
    assert error.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_client_without_a_slot_gets_no_session() -> None:
    """As in Kafka: otherwise more clients than slots would evict one another at each fetch."""
    sessions = FetchSessions(slots=2)
    kept = [new_session(sessions, 5) for _ in range(2)]
    for now_ms in range(0, 10 * MIN_EVICTION_MS, MIN_EVICTION_MS):
        for session in kept:
            use(sessions, session, now_ms)
        fetched = sessions.open(0, 0, targets(5), [], uses_topic_ids=False, now_ms=now_ms)
        assert fetched is None
    assert len(sessions) == 2


def test_unused_session_loses_its_slot() -> None:
    sessions = FetchSessions(slots=2)
    used, unused = [new_session(sessions, 5) for _ in range(2)]
    use(sessions, used, 1)
    new_session(sessions, 1, MIN_EVICTION_MS + 1)
    with pytest.raises(FetchSessionError):
        use(sessions, unused, MIN_EVICTION_MS + 1)
    use(sessions, used, MIN_EVICTION_MS + 1)


def test_larger_session_replaces_an_old_one() -> None:
    sessions = FetchSessions(slots=3)
    small, smaller = new_session(sessions, 8), new_session(sessions, 7)
    young = new_session(sessions, 1, MIN_EVICTION_MS)
    now_ms = MIN_EVICTION_MS + 1
    for session in (small, smaller, young):
        use(sessions, session, now_ms)
    assert sessions.open(0, 0, targets(7), [], uses_topic_ids=False, now_ms=now_ms) is None
    new_session(sessions, 8, now_ms)
    with pytest.raises(FetchSessionError):
        use(sessions, smaller, now_ms)
    new_session(sessions, 9, now_ms)
    with pytest.raises(FetchSessionError):
        use(sessions, small, now_ms)
    assert sessions.open(0, 0, targets(99), [], uses_topic_ids=False, now_ms=now_ms) is None
    use(sessions, young, now_ms)
    assert sessions.num_partitions == count_partitions(sessions)


def test_session_beyond_the_limit_is_evicted() -> None:
    sessions = FetchSessions(slots=100, max_partitions=1_000)
    new_session(sessions, 100)
    growing = new_session(sessions, 100)
    for step in range(1, 10):
        sessions.open(
            growing.session_id,
            growing.epoch,
            targets(100, step * 100),
            [],
            uses_topic_ids=False,
            now_ms=0,
        )
        assert sessions.num_partitions == count_partitions(sessions) <= 1_000
    with pytest.raises(FetchSessionError) as error:
        sessions.open(
            growing.session_id,
            growing.epoch,
            targets(100, 5_000),
            [],
            uses_topic_ids=False,
            now_ms=0,
        )
    assert error.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.num_partitions) == (0, 0)


def test_fetch_of_too_many_partitions_gets_no_session() -> None:
    sessions = FetchSessions(slots=100, max_partitions=1_000)
    assert sessions.open(0, 0, targets(1_001), [], uses_topic_ids=False, now_ms=0) is None
    assert len(sessions) == 0


def test_removed_partitions_are_not_counted() -> None:
    sessions = FetchSessions(slots=3, max_partitions=1_000)
    session = new_session(sessions, 10)
    sessions.open(
        session.session_id,
        session.epoch,
        [],
        [each.key for each in targets(4)],
        uses_topic_ids=False,
        now_ms=0,
    )
    assert sessions.num_partitions == count_partitions(sessions) == 6
    new_session(sessions, 10)
    new_session(sessions, 10)
    assert sessions.num_partitions == count_partitions(sessions) == 26
    for session_id in list(sessions._sessions):
        sessions.open(session_id, -1, [], [], uses_topic_ids=False, now_ms=0)
    assert sessions.num_partitions == count_partitions(sessions) == 0
