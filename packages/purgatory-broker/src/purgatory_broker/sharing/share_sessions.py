"""Share sessions (KIP-932): which partitions a member fetches, and how often it has asked.

A session belongs to a member and to its connection. It ends with either.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.sharing.records import ShareError

#: The epoch of a request that opens a session.
INITIAL_EPOCH = 0
#: The epoch of a request that ends its session.
FINAL_EPOCH = -1
_INT_MAX = 2**31 - 1


class MemberKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(slots=True, eq=False)
class ShareSession:
    key: MemberKey
    #: What ends the session with the connection: whatever the server knows it by.
    connection: object
    #: The epoch of the member's next request.
    epoch: int = INITIAL_EPOCH + 1
    #: The partitions that it fetches, with whether the next response has to name it.
    partitions: dict[TopicIdPartition, bool] = field(default_factory=dict)

    def take_news(self, partition: TopicIdPartition) -> bool:
        """Return whether a response has to name a partition that has nothing; it does once."""
        is_new = self.partitions.get(partition, False)
        if is_new:
            self.partitions[partition] = False
        return is_new


class ShareSessions:
    """The share sessions of a node, one for each member of a group."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[MemberKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, key: MemberKey) -> ShareSession | None:
        return self._sessions.get(key)

    def fetch(
        self,
        key: MemberKey,
        epoch: int,
        added: Iterable[TopicIdPartition],
        forgotten: Iterable[TopicIdPartition],
        connection: object,
    ) -> ShareSession:
        """Return the session of a fetch, with what the fetch adds and forgets.

        Raises ShareError if there is none, its epoch is another one, or there are too many.
        """
        if epoch == INITIAL_EPOCH:
            self.remove(key)
            if len(self._sessions) >= self._limit:
                raise ShareError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
            session = ShareSession(key, connection, partitions=dict.fromkeys(added, True))
            self._sessions[key] = session
            return session
        session = self._require(key)
        if epoch == FINAL_EPOCH:
            return session
        self._step(session, epoch)
        session.connection = connection
        for partition in added:
            session.partitions.setdefault(partition, True)
        for partition in forgotten:
            session.partitions.pop(partition, None)
        return session

    def acknowledge(self, key: MemberKey, epoch: int) -> ShareSession:
        """Return the session of an acknowledgement, which never opens one."""
        if epoch == INITIAL_EPOCH:
            raise ShareError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = self._require(key)
        if epoch != FINAL_EPOCH:
            self._step(session, epoch)
        return session

    def _require(self, key: MemberKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise ShareError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    @staticmethod
    def _step(session: ShareSession, epoch: int) -> None:
        if epoch != session.epoch:
            raise ShareError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == _INT_MAX else epoch + 1

    def has_group(self, group_id: str) -> bool:
        return any(key.group_id == group_id for key in self._sessions)

    def remove(self, key: MemberKey) -> ShareSession | None:
        return self._sessions.pop(key, None)

    def remove_of_connection(self, connection: object) -> list[ShareSession]:
        """Remove and return the sessions of a connection that has ended."""
        ended = [each for each in self._sessions.values() if each.connection is connection]
        for session in ended:
            del self._sessions[session.key]
        return ended
