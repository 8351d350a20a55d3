"""Fetch: read records, now or when there are enough."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from purgatory_broker._wire.api_messages import NamedTopic
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.fetch import (
    FETCH_MESSAGES,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from purgatory_broker.api.access import DENIED, allowed_topics, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.fetch_responses import (
    SESSION_SINCE,
    TOPIC_ID_SINCE,
    FetchReply,
    UnknownTopics,
    write_response,
)
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_fetch import (
    FetchedPartition,
    FetchParams,
    FetchTarget,
)
from purgatory_broker.replication.fetch_sessions import (
    NO_SESSION,
    FetchSession,
    FetchSessionError,
)
from purgatory_broker.request_context import RequestContext

#: The first versions with fetches from followers (KIP-392), and with the follower's id in
#: `replica_state` (KIP-903).
FETCH_FROM_FOLLOWER_SINCE = 11
REPLICA_STATE_SINCE = 15

#: The isolation level of consumers that read what is committed.
READ_COMMITTED = 1


def _fetch(broker: BrokerApi, context: RequestContext, request: FetchRequest) -> None:
    """Handle a Fetch request: read partitions, at once or when enough records are available.

    1. Look up the requested partitions; with topic ids, some may be of unknown topics.
    2. Open the fetch session, which may replace the requested partitions by those it has cached.
    3. Refuse partitions that the client may not read, or that do not exist.
    4. Answer a consumer over its quota without reading; it repeats the request.
    5. Pass the other partitions to the replica manager, which waits for `min_bytes`. If a partition
       was refused, the response is sent at once.
    """
    version = context.header.version
    by_id = version >= TOPIC_ID_SINCE
    targets: list[FetchTarget] = []
    unknown: UnknownTopics = []
    if request.topics:
        targets, unknown = _requested_targets(broker, request, by_id=by_id)
    try:
        session = _open_session(broker, version, request, targets)
    except FetchSessionError as error:
        context.reply(
            FetchResponse(error_code=int(error.code), session_id=NO_SESSION, responses=[])
        )
        return
    if session is not None:
        targets = session.current_targets()
    replica_id = _replica_id(version, request)
    missing = _missing_partitions(broker, context, targets, replica_id)
    if missing:
        refused = {partition.key for partition in missing}
        targets = [target for target in targets if target.key not in refused]
    if replica_id < 0 and _is_throttled(broker, context, session):
        return
    is_refused = bool(unknown or missing)
    params = _fetch_params(broker, version, request, replica_id, at_once=is_refused)
    response = FetchReply(broker, context, session, unknown, missing)
    context.operation = broker.fetches.fetch(params, targets, response.send, session)


def _requested_targets(
    broker: BrokerApi, request: FetchRequest, *, by_id: bool
) -> tuple[list[FetchTarget], UnknownTopics]:
    targets: dict[TopicPartition, FetchTarget] = {}
    unknown: UnknownTopics = []
    for topic in request.topics:
        name = _topic_name(broker, topic, by_id=by_id)
        for partition in topic.partitions:
            if name is None:
                key = TopicPartition("", partition.partition)
                error = FetchedPartition(key, ErrorCode.UNKNOWN_TOPIC_ID)
                unknown.append((topic.topic_id, error))
                continue
            key = TopicPartition(name, partition.partition)
            targets[key] = FetchTarget(
                key,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
                partition.last_fetched_epoch,
                partition.log_start_offset,
            )
    return list(targets.values()), unknown


def _topic_name(
    broker: BrokerApi, topic: FetchTopic | ForgottenTopic, *, by_id: bool
) -> str | None:
    return broker.metadata.topic_name(topic.topic_id) if by_id else topic.topic


def _open_session(
    broker: BrokerApi, version: int, request: FetchRequest, targets: list[FetchTarget]
) -> FetchSession | None:
    if version < SESSION_SINCE:
        return None
    by_id = version >= TOPIC_ID_SINCE
    forgotten: list[TopicPartition] = []
    for topic in request.forgotten_topics_data:
        name = _topic_name(broker, topic, by_id=by_id) or ""
        forgotten += [TopicPartition(name, index) for index in topic.partitions]
    return broker.fetch_sessions.open(
        request.session_id,
        request.session_epoch,
        targets,
        forgotten,
        uses_topic_ids=by_id,
        now_ms=broker.now_ms(),
    )


def _missing_partitions(
    broker: BrokerApi, context: RequestContext, targets: Sequence[FetchTarget], replica_id: int
) -> list[FetchedPartition]:
    """Return the partitions that the client may not read, or that do not exist."""
    allowed = _allowed_topics(broker, context, targets, replica_id)
    exists = broker.metadata.partition_exists
    missing = []
    for target in targets:
        key = target.key
        if allowed is not None and key.topic not in allowed:
            missing.append(FetchedPartition(key, DENIED[AclResource.TOPIC]))
        elif not exists(key):
            missing.append(FetchedPartition(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return missing


def _allowed_topics(
    broker: BrokerApi, context: RequestContext, targets: Sequence[FetchTarget], replica_id: int
) -> Container[str] | None:
    """Return the topics that may be read; None if all may."""
    if broker.authorizer is None:
        return None
    if replica_id >= 0:
        is_node = is_allowed(broker, context, AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
        return None if is_node else ()
    names = (target.key.topic for target in targets)
    return allowed_topics(broker, context, AclOperation.READ, names)


def _replica_id(version: int, request: FetchRequest) -> int:
    """Return the id of the follower that sent a request; below 0 for a consumer."""
    if version >= REPLICA_STATE_SINCE and request.replica_state:
        return request.replica_state.replica_id
    return request.replica_id


def _is_throttled(broker: BrokerApi, context: RequestContext, session: FetchSession | None) -> bool:
    """Return whether a consumer is over its quota, and its request has been answered."""
    throttle_ms = broker.fetch_throttle_ms(context.client, 0)
    if not throttle_ms:
        return False
    context.throttle_ms = throttle_ms
    context.reply(
        FetchResponse(
            throttle_time_ms=throttle_ms,
            session_id=session.session_id if session else NO_SESSION,
            responses=[],
        )
    )
    return True


def _fetch_params(
    broker: BrokerApi, version: int, request: FetchRequest, replica_id: int, *, at_once: bool
) -> FetchParams:
    max_wait_ms = 0 if at_once else request.max_wait_ms
    max_bytes = min(request.max_bytes, broker.settings.fetch_max_bytes)
    min_bytes = min(request.min_bytes, max_bytes)
    leader_only = replica_id >= 0 or version < FETCH_FROM_FOLLOWER_SINCE
    return FetchParams(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        leader_only,
        request.isolation_level == READ_COMMITTED,
    )


def _topics_of_session(broker: BrokerApi, request: FetchRequest) -> Iterator[NamedTopic]:
    if request.session_epoch > 0:
        for key in broker.fetch_sessions.partitions_of(request.session_id):
            yield NamedTopic(key.topic, None, [key.partition])


FETCH = ServedApi(
    messages=replace(FETCH_MESSAGES, write_response=write_response),
    versions=(4, 18),
    holds_records=True,
    handle=_fetch,
    more_topics=_topics_of_session,
)
