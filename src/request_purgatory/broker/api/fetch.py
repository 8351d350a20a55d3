"""Fetch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_fetch import (
    FetchedPartition,
    FetchParams,
    FetchTarget,
)
from request_purgatory.broker.replication.fetch_sessions import (
    NO_SESSION,
    FetchSession,
    FetchSessionError,
    news,
)
from request_purgatory.broker.server.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.node import Node

_Response = apis.FETCH.response
_Topic = _Response.FetchableTopicResponse
_Partition = _Topic.PartitionData
_Leader = _Partition.LeaderIdAndEpoch
_Diverging = _Partition.EpochEndOffset
_Endpoint = _Response.NodeEndpoint

#: From these versions on: topics go by their ids; the follower is named in a field of its own; a
#: refusal says who the leader is.
_USES_IDS = 13
_HAS_REPLICA_STATE = 15
_TELLS_LEADER = 16
_HAS_SESSIONS = 7
#: From this version on a client says where it is, and followers may answer (KIP-392).
_MAY_ASK_FOLLOWERS = 11

_WRONG_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def fetch(node: Node, context: RequestContext, request: Any) -> None:
    """Read, now or when there is enough to be read."""
    by_id = context.version >= _USES_IDS
    targets, unknown = _targets(node, request, by_id=by_id)
    forgotten = [
        TopicPartition(_name(node, topic, by_id=by_id) or "", index)
        for topic in request.forgotten_topics_data or []
        for index in topic.partitions
    ]
    session: FetchSession | None = None
    if context.version >= _HAS_SESSIONS:
        try:
            session = node.fetch_sessions.open(
                request.session_id, request.session_epoch, targets, forgotten, uses_topic_ids=by_id
            )
        except FetchSessionError as error:
            context.reply(
                _Response(error_code=int(error.code), session_id=NO_SESSION, responses=[])
            )
            return
    if session is not None:
        targets = [cached.target for cached in session.partitions.values()]
    refused = [*unknown]
    wanted = []
    for target in targets:
        if node.knows(target.key):
            wanted.append(target)
        else:
            refused.append(
                (None, FetchedPartition(target.key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            )
    replica_id = (
        request.replica_state.replica_id
        if context.version >= _HAS_REPLICA_STATE and request.replica_state
        else request.replica_id
    )
    answer = _Answer(node, context, session, refused, by_id=by_id)
    throttle_ms = (
        node.consumer_quota.throttle_ms(context.client.client_id, 0, node.now_ms())
        if replica_id < 0
        else 0
    )
    if throttle_ms:
        # As in Kafka: nothing now, and the client comes again once its rate has come down.
        context.throttle_ms = throttle_ms
        context.reply(
            _Response(
                throttle_time_ms=throttle_ms,
                session_id=session.session_id if session else NO_SESSION,
                responses=[],
            )
        )
        return
    waits = request.max_wait_ms if not refused else 0
    maximum = min(request.max_bytes, node.settings.fetch_max_bytes)
    leader_only = replica_id >= 0 or context.version < _MAY_ASK_FOLLOWERS
    params = FetchParams(replica_id, waits, min(request.min_bytes, maximum), maximum, leader_only)
    context.operation = node.replicas.fetch(params, wanted, answer.send)


def _name(node: Node, topic: Any, *, by_id: bool) -> str | None:
    return node.names.get(topic.topic_id) if by_id else str(topic.topic)


def _targets(
    node: Node, request: Any, *, by_id: bool
) -> tuple[list[FetchTarget], list[tuple[Any, FetchedPartition]]]:
    """What a request asks for; and, with its id, what of it is of a topic that nobody knows."""
    targets: dict[TopicPartition, FetchTarget] = {}
    unknown = []
    for topic in request.topics:
        name = _name(node, topic, by_id=by_id)
        for each in topic.partitions:
            if name is None:
                missing = FetchedPartition(
                    TopicPartition("", each.partition), ErrorCode.UNKNOWN_TOPIC_ID
                )
                unknown.append((topic.topic_id, missing))
                continue
            key = TopicPartition(name, each.partition)
            targets[key] = FetchTarget(
                key,
                each.fetch_offset,
                each.partition_max_bytes,
                each.current_leader_epoch,
                each.last_fetched_epoch,
                each.log_start_offset,
            )
    return list(targets.values()), unknown


class _Answer:
    """The answer to a fetch, once it has been read."""

    __slots__ = ("by_id", "context", "node", "refused", "session")

    def __init__(
        self,
        node: Node,
        context: RequestContext,
        session: FetchSession | None,
        refused: Iterable[tuple[Any, FetchedPartition]],
        *,
        by_id: bool,
    ) -> None:
        self.node = node
        self.context = context
        self.session = session
        self.refused = list(refused)
        self.by_id = by_id

    def send(self, fetched: list[FetchedPartition]) -> None:
        """Answer with what was read.

        Without records where clients leave too many unread (see `UnreadAnswers`).
        """
        if not self.node.server.unread.has_room(is_fetch=True):
            for each in fetched:
                each.records = b""
        told = fetched
        if self.session is not None:
            known = [each for topic_id, each in self.refused if topic_id is None]
            told = news(self.session, [*known, *fetched])
            refused = [(topic_id, each) for topic_id, each in self.refused if topic_id is not None]
        else:
            refused = self.refused
        self._count([each for each in told if each.records])
        topics: dict[tuple[str, Any], list[Any]] = {}
        leaders: set[int] = set()
        for topic_id, each in [*refused, *((None, each) for each in told)]:
            if topic_id is None and self.by_id:
                topic_id = self.node.topic_id(each.key.topic)
            topics.setdefault((each.key.topic, topic_id), []).append(self._partition(each, leaders))
        endpoints = self.node.endpoints(leaders)
        self.context.reply(
            _Response(
                throttle_time_ms=self.context.throttle_ms,
                error_code=0,
                session_id=NO_SESSION if self.session is None else self.session.session_id,
                responses=[
                    _Topic(topic=name, topic_id=topic_id, partitions=each)
                    for (name, topic_id), each in topics.items()
                ],
                node_endpoints=[_Endpoint(**endpoint) for endpoint in endpoints],
            )
        )

    def _count(self, told: list[FetchedPartition]) -> None:
        size = sum(len(each.records) for each in told)
        if size:
            self.node.consumer_quota.throttle_ms(
                self.context.client.client_id, size, self.node.now_ms()
            )

    def _partition(self, fetched: FetchedPartition, leaders: set[int]) -> Any:
        partition = _Partition(
            partition_index=fetched.key.partition,
            error_code=int(fetched.error),
            high_watermark=fetched.high_watermark,
            last_stable_offset=fetched.high_watermark,
            log_start_offset=fetched.log_start_offset,
            aborted_transactions=None,
            records=fetched.records,
        )
        if fetched.diverging is not None:
            epoch, end = fetched.diverging
            partition.diverging_epoch = _Diverging(epoch=epoch, end_offset=end)
        if fetched.error in _WRONG_LEADER and self.context.version >= _TELLS_LEADER:
            leader, epoch = self.node.leader_of(fetched.key)
            partition.current_leader = _Leader(leader_id=leader, leader_epoch=epoch)
            leaders.add(leader)
        return partition
