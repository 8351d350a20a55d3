"""The handlers of the consumer groups' APIs, which the group coordinator implements."""

from __future__ import annotations

from typing import Any

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.metadata.topics import NO_LEADER, OFFSETS_TOPIC, TopicPartition
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.broker.wire.limits import MAX_TEXT_BYTES

_Coordinator = apis.FIND_COORDINATOR.response.Coordinator

#: The key types of FindCoordinator.
GROUP = 0
TRANSACTION = 1

#: The first version of FindCoordinator with a key type, and the first ones of FindCoordinator and
#: OffsetFetch for several groups at a time.
FIND_COORDINATOR_KEY_TYPE_SINCE = 1
FIND_COORDINATOR_BATCHED_SINCE = 4
OFFSET_FETCH_BATCHED_SINCE = 8

#: In an OffsetFetch request of up to this number of groups, a group that is named twice has two
#: results, as in Kafka.
MAX_GROUPS_WITH_REPEATS = 10
#: The most protocols that a member may offer; consumers offer two or three. The coordinator keeps
#: each as long as the member.
MAX_PROTOCOLS = 1_000
#: A member id is the client id or the instance id, a dash and a UUID.
_MEMBER_ID_SUFFIX_BYTES = 37
#: The longest retention of a committed offset: practically for ever, and its expiration time still
#: fits into a record's 64 bits.
MAX_RETENTION_MS = 2**62


def find_coordinator(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a FindCoordinator request: look up the brokers that coordinate groups."""
    response = apis.FIND_COORDINATOR.response
    has_key_type = context.version >= FIND_COORDINATOR_KEY_TYPE_SINCE
    key_type = request.key_type if has_key_type else GROUP
    if context.version >= FIND_COORDINATOR_BATCHED_SINCE:
        coordinators = [
            _Coordinator(**_find_coordinator(node, key, key_type), key=key)
            for key in request.coordinator_keys
        ]
        context.reply(response(coordinators=coordinators))
        return
    context.reply(response(**_find_coordinator(node, request.key, key_type)))


def _find_coordinator(node: BrokerApi, key: str, key_type: int) -> dict[str, Any]:
    """Return the fields of one coordinator: the leader of the group's offsets partition."""
    code = ErrorCode.NONE
    leader = NO_LEADER
    message = None
    if key_type not in (GROUP, TRANSACTION):
        code = ErrorCode.INVALID_REQUEST
    elif key_type == TRANSACTION:
        # A fatal error: clients would retry COORDINATOR_NOT_AVAILABLE for ever.
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        message = "Transactions are not supported."
    elif not node.reaches_controller:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        node.create_offsets_topic()
        partition = TopicPartition(OFFSETS_TOPIC, node.groups.partition_for(key))
        leader, _ = node.metadata.leader_of(partition)
        if leader == NO_LEADER:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code is not ErrorCode.NONE:
        return {
            "error_code": int(code),
            "error_message": message,
            "node_id": -1,
            "host": "",
            "port": -1,
        }
    (endpoint,) = node.endpoints([leader])
    return {
        "error_code": 0,
        "error_message": None,
        "node_id": leader,
        "host": endpoint["host"],
        "port": endpoint["port"],
    }


def join_group(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a JoinGroup request.

    Raises:
        WireError: There are too many protocols, or the client id or instance id is too long for the
            member id.
    """
    if len(request.protocols) > MAX_PROTOCOLS:
        raise WireError(
            f"JoinGroup with {len(request.protocols):,} protocols exceeds the limit of "
            f"{MAX_PROTOCOLS:,}"
        )
    member_name = (request.group_instance_id or context.client.client_id).encode()
    max_bytes = MAX_TEXT_BYTES - _MEMBER_ID_SUFFIX_BYTES
    if len(member_name) > max_bytes:
        raise WireError(
            f"JoinGroup with a client or instance id of {len(member_name):,} bytes exceeds the "
            f"limit of {max_bytes:,}"
        )
    node.groups.join_group(request, context.client, context.reply, context.version)


def sync_group(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a SyncGroup request."""
    node.groups.sync_group(request, context.reply)


def heartbeat(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a Heartbeat request."""
    context.reply(node.groups.heartbeat(request))


def leave_group(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a LeaveGroup request."""
    context.reply(node.groups.leave_group(request))


def offset_commit(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an OffsetCommit request; offsets of unknown partitions are refused."""
    response = apis.OFFSET_COMMIT.response
    topic_class = response.OffsetCommitResponseTopic
    partition_class = topic_class.OffsetCommitResponsePartition
    unknown = _remove_unknown_partitions(node, request)
    request.retention_time_ms = min(request.retention_time_ms, MAX_RETENTION_MS)

    def reply(committed: Any) -> None:
        _add_unknown_partitions(committed.topics, unknown, topic_class, partition_class)
        context.reply(committed)

    if request.topics or not unknown:
        node.groups.commit_offsets(request, reply)
    else:
        reply(response(topics=[], throttle_time_ms=0))


def _remove_unknown_partitions(node: BrokerApi, request: Any) -> dict[str, list[int]]:
    """Remove unknown partitions from a request.

    Returns:
        The indexes of the removed partitions by topic.
    """
    unknown: dict[str, list[int]] = {}
    known = []
    for topic in request.topics:
        existing = []
        for partition in topic.partitions:
            if node.metadata.partition_exists(
                TopicPartition(topic.name, partition.partition_index)
            ):
                existing.append(partition)
            else:
                unknown.setdefault(topic.name, []).append(partition.partition_index)
        topic.partitions = existing
        if existing:
            known.append(topic)
    request.topics = known
    return unknown


def _add_unknown_partitions(
    topics: list[Any], unknown: dict[str, list[int]], topic_class: Any, partition_class: Any
) -> None:
    """Add unknown partitions, with their error, to a response's topics."""
    code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    by_name = {topic.name: topic for topic in topics}
    for name, partitions in unknown.items():
        refused = [partition_class(partition_index=index, error_code=code) for index in partitions]
        topic = by_name.get(name)
        if topic is None:
            topics.append(topic_class(name=name, partitions=refused))
        else:
            topic.partitions = [*topic.partitions, *refused]


def offset_fetch(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an OffsetFetch request."""
    is_batched = context.version >= OFFSET_FETCH_BATCHED_SINCE
    if is_batched and len(request.groups) > MAX_GROUPS_WITH_REPEATS:
        # Each group once: a small request that repeats a group would have a huge response.
        groups: dict[str, Any] = {}
        for group in request.groups:
            groups.setdefault(group.group_id, group)
        request.groups = list(groups.values())
    context.reply(node.groups.fetch_offsets(request))


def offset_delete(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an OffsetDelete request; offsets of unknown partitions are refused."""
    response = apis.OFFSET_DELETE.response
    topic_class = response.OffsetDeleteResponseTopic
    partition_class = topic_class.OffsetDeleteResponsePartition
    unknown = _remove_unknown_partitions(node, request)

    def reply(deleted: Any) -> None:
        if deleted.error_code == 0:
            _add_unknown_partitions(deleted.topics, unknown, topic_class, partition_class)
        context.reply(deleted)

    node.groups.delete_offsets(request, reply)


def list_groups(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a ListGroups request."""
    context.reply(node.groups.list_groups(request))


def describe_groups(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a DescribeGroups request; a group that is named twice has one result."""
    request.groups = list(dict.fromkeys(request.groups))
    context.reply(node.groups.describe_groups(request))


def delete_groups(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a DeleteGroups request."""
    node.groups.delete_groups(request, context.reply)
