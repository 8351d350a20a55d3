"""The members of share groups at a node: their sessions, and what they fetch and acknowledge."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from uuid import UUID

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.sharing.delayed_share_fetch import DelayedShareFetch, ShareFetchParams
from purgatory_broker.sharing.records import AcknowledgementBatch
from purgatory_broker.sharing.share_fetches import SharedRecords, ShareFetches
from purgatory_broker.sharing.share_partitions import SharePartitions
from purgatory_broker.sharing.share_sessions import (
    MemberKey,
    ShareSession,
    ShareSessions,
)

Acknowledgements = Mapping[TopicIdPartition, list[AcknowledgementBatch]]
_Errors = dict[TopicIdPartition, ErrorCode]


class ShareMembers:
    """What members ask of a node, by ids of topics.

    A member's session ends when the member says so, leaves its group, or loses its connection. What
    it had acquired is available again then.
    """

    def __init__(
        self,
        partitions: SharePartitions,
        sessions: ShareSessions,
        topic_name: Callable[[UUID], str | None],
        partition_exists: Callable[[TopicPartition], bool],
    ) -> None:
        self._partitions = partitions
        self._fetches = ShareFetches(partitions)
        self.sessions = sessions
        self._topic_name = topic_name
        self._partition_exists = partition_exists

    def _split(
        self, wanted: Iterable[TopicIdPartition], allowed: Container[str] | None = None
    ) -> tuple[dict[TopicPartition, TopicIdPartition], _Errors]:
        """Return the partitions that exist, by name, and the errors of the others."""
        found: dict[TopicPartition, TopicIdPartition] = {}
        errors: _Errors = {}
        for each in wanted:
            name = self._topic_name(each.topic_id)
            if name is None:
                errors[each] = ErrorCode.UNKNOWN_TOPIC_ID
            elif allowed is not None and name not in allowed:
                errors[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif self._partition_exists(TopicPartition(name, each.partition)):
                found[TopicPartition(name, each.partition)] = each
            else:
                errors[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return found, errors

    def fetch(
        self,
        params: ShareFetchParams,
        wanted: Iterable[TopicIdPartition],
        allowed: Container[str],
        reply: Callable[[dict[TopicIdPartition, SharedRecords]], None],
    ) -> DelayedShareFetch | None:
        """Acquire of partitions whose topics' names are in `allowed`."""
        found, errors = self._split(wanted, allowed)

        def respond(fetched: Mapping[TopicPartition, SharedRecords]) -> None:
            results = {each: SharedRecords(error) for each, error in errors.items()}
            results |= {found[key]: result for key, result in fetched.items()}
            reply(results)

        return self._fetches.fetch(params, list(found), respond)

    def acknowledge(
        self,
        key: MemberKey,
        acknowledged: Acknowledgements,
        allowed: Container[str],
        reply: Callable[[_Errors], None],
        *,
        may_renew: bool,
    ) -> None:
        found, errors = self._split(acknowledged, allowed)

        def respond(results: Mapping[TopicPartition, ErrorCode]) -> None:
            reply(errors | {found[each]: error for each, error in results.items()})

        by_name = {name: acknowledged[each] for name, each in found.items()}
        self._partitions.acknowledge(
            key.group_id, key.member_id, by_name, respond, may_renew=may_renew
        )

    def end_session(self, key: MemberKey, reply: Callable[[], None] = lambda: None) -> None:
        """End a member's session, if it has one, and release what it has acquired."""
        session = self.sessions.remove(key)
        if session is None:
            reply()
        else:
            self._release(session, reply)

    def end_connection(self, connection: object) -> None:
        with self._partitions.actions:
            for session in self.sessions.remove_of_connection(connection):
                self._release(session, lambda: None)

    def _release(self, session: ShareSession, reply: Callable[[], None]) -> None:
        found, _ = self._split(session.partitions)
        key = session.key

        def released(_errors: Mapping[TopicPartition, ErrorCode]) -> None:
            if not self.sessions.has_group(key.group_id):
                self._partitions.forget_group(key.group_id)
            reply()

        self._partitions.release(key.group_id, key.member_id, found, released)
