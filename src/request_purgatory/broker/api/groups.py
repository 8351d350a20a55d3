"""The APIs of consumer groups, by way of the node's group coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from request_purgatory.broker.metadata.topics import NO_LEADER, OFFSETS_TOPIC, TopicPartition
from request_purgatory.broker.server.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.broker.wire.limits import MAX_TEXT_BYTES

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.node import Node

_Coordinator = apis.FIND_COORDINATOR.response.Coordinator

GROUP = 0
TRANSACTION = 1
#: From these versions on FindCoordinator and OffsetFetch ask for several at a time.
_SEVERAL = 4
#: Up to so many, one that is named twice is answered for twice, as in Kafka.
_MANY_GROUPS = 10
_FETCHES_SEVERAL = 8

#: Assignors that a member may offer; consumers have two or three. Each is kept as long as the
#: member is.
MAX_PROTOCOLS = 1_000
#: What a member's id has behind the name of its client or instance: a dash and a UUID.
_AFTER_NAME_BYTES = 37
_LONGEST_RETENTION_MS = 2**62
_LONGEST_RETENTION_MS = 2**62


def find_coordinator(node: Node, context: RequestContext, request: Any) -> None:
    """The node that leads the partition of `__consumer_offsets` that a group's offsets are in."""
    response = apis.FIND_COORDINATOR.response
    key_type = request.key_type if context.version >= 1 else GROUP
    if context.version >= _SEVERAL:
        found = [_found(node, key, key_type) for key in request.coordinator_keys]
        context.reply(
            response(
                coordinators=[
                    _Coordinator(**each, key=key)
                    for key, each in zip(request.coordinator_keys, found, strict=True)
                ]
            )
        )
        return
    context.reply(response(**_found(node, request.key, key_type)))


def _found(node: Node, key: str, key_type: int) -> dict[str, Any]:
    code = ErrorCode.NONE
    leader = NO_LEADER
    message = None
    if key_type not in (GROUP, TRANSACTION):
        code = ErrorCode.INVALID_REQUEST
    elif key_type == TRANSACTION:
        # An error that clients give up at: what they try again they would try for ever.
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        message = "This broker has no transactions."
    elif not node.reaches_controller:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        node.cluster.create_offsets_topic()
        partition = TopicPartition(OFFSETS_TOPIC, node.groups.partition_for(key))
        leader, _ = node.leader_of(partition)
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


def join_group(node: Node, context: RequestContext, request: Any) -> None:
    """Join a group, or stay in it.

    Raises:
        WireError: more protocols than any client offers, or a name that is too long for the member
            id that is made of it.
    """
    if len(request.protocols) > MAX_PROTOCOLS:
        raise WireError(
            f"JoinGroup with {len(request.protocols):,} protocols, where {MAX_PROTOCOLS:,} are allowed"
        )
    named_after = (request.group_instance_id or context.client.client_id).encode()
    if len(named_after) > MAX_TEXT_BYTES - _AFTER_NAME_BYTES:
        raise WireError(
            f"JoinGroup of a client or instance whose name has {len(named_after):,} bytes"
        )
    node.groups.join_group(request, context.client, context.reply, context.version)


def sync_group(node: Node, context: RequestContext, request: Any) -> None:
    """Bring, or ask for, what each member is to do."""
    node.groups.sync_group(request, context.reply)


def heartbeat(node: Node, context: RequestContext, request: Any) -> None:
    """Tell that a member is alive."""
    context.reply(node.groups.heartbeat(request))


def leave_group(node: Node, context: RequestContext, request: Any) -> None:
    """Leave a group."""
    context.reply(node.groups.leave_group(request))


def offset_commit(node: Node, context: RequestContext, request: Any) -> None:
    """Commit offsets.

    Those of partitions that are not known are refused, the others go their way.
    """
    response = apis.OFFSET_COMMIT.response
    topic_class = response.OffsetCommitResponseTopic
    partition_class = topic_class.OffsetCommitResponsePartition
    unknown = _take_unknown(node, request)
    # For ever, and no longer than a record of it can tell.
    request.retention_time_ms = min(request.retention_time_ms, _LONGEST_RETENTION_MS)

    def reply(committed: Any) -> None:
        _add_refused(committed.topics, unknown, topic_class, partition_class)
        context.reply(committed)

    if request.topics or not unknown:
        node.groups.commit_offsets(request, reply)
    else:
        reply(response(topics=[], throttle_time_ms=0))


def _take_unknown(node: Node, request: Any) -> dict[str, list[int]]:
    """Take out of a request the partitions that are not known: their numbers by topic."""
    unknown: dict[str, list[int]] = {}
    known = []
    for topic in request.topics:
        found = []
        for each in topic.partitions:
            if node.knows(TopicPartition(topic.name, each.partition_index)):
                found.append(each)
            else:
                unknown.setdefault(topic.name, []).append(each.partition_index)
        topic.partitions = found
        if found:
            known.append(topic)
    request.topics = known
    return unknown


def _add_refused(
    topics: list[Any], unknown: dict[str, list[int]], topic_class: Any, partition_class: Any
) -> None:
    """Add to a response's topics those that are not known."""
    code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    by_name = {each.name: each for each in topics}
    for name, partitions in unknown.items():
        refused = [partition_class(partition_index=index, error_code=code) for index in partitions]
        same = by_name.get(name)
        if same is None:
            topics.append(topic_class(name=name, partitions=refused))
        else:
            same.partitions = [*same.partitions, *refused]


def offset_fetch(node: Node, context: RequestContext, request: Any) -> None:
    """The offsets that groups have committed."""
    if context.version >= _FETCHES_SEVERAL and len(request.groups) > _MANY_GROUPS:
        # Each only once: the same one again and again would be an answer that fills the memory.
        once: dict[str, Any] = {}
        for each in request.groups:
            once.setdefault(each.group_id, each)
        request.groups = list(once.values())
    context.reply(node.groups.fetch_offsets(request))


def offset_delete(node: Node, context: RequestContext, request: Any) -> None:
    """Forget offsets that a group has committed.

    Those of partitions that are not known are refused.
    """
    response = apis.OFFSET_DELETE.response
    topic_class = response.OffsetDeleteResponseTopic
    partition_class = topic_class.OffsetDeleteResponsePartition
    unknown = _take_unknown(node, request)

    def reply(deleted: Any) -> None:
        if deleted.error_code == 0:
            _add_refused(deleted.topics, unknown, topic_class, partition_class)
        context.reply(deleted)

    node.groups.delete_offsets(request, reply)


def list_groups(node: Node, context: RequestContext, request: Any) -> None:
    """The groups that this node coordinates."""
    context.reply(node.groups.list_groups(request))


def describe_groups(node: Node, context: RequestContext, request: Any) -> None:
    """Groups with their members; each once, however often it is asked for."""
    request.groups = list(dict.fromkeys(request.groups))
    context.reply(node.groups.describe_groups(request))


def delete_groups(node: Node, context: RequestContext, request: Any) -> None:
    """Delete groups that are empty."""
    node.groups.delete_groups(request, context.reply)
