"""ElectLeaders, and the reassignments of partitions to other brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS_MESSAGES,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from purgatory_broker._wire.protocol.elect_leaders import (
    ELECT_LEADERS_MESSAGES,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from purgatory_broker._wire.protocol.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS_MESSAGES,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import RequestedTopic, ServedApi, Subjects, refused_topics
from purgatory_broker.metadata.reassignment import Reassignment
from purgatory_broker.metadata.topics import ControllerError, Partition, TopicPartition
from purgatory_broker.request_context import RequestContext

#: The first version with an election type, and the types. Older ones mean the first type.
ELECTION_TYPE_SINCE = 1
_PREFERRED, _UNCLEAN = 0, 1


@dataclass(frozen=True, slots=True)
class _ElectLeaders:
    #: One of the types above, or an unknown one.
    election_type: int
    #: The partitions; None is all.
    topics: tuple[RequestedTopic, ...] | None
    timeout_ms: int


def _decode_elect_leaders(message: Any, context: RequestContext) -> _ElectLeaders:
    topics = None
    if message.topic_partitions is not None:
        topics = tuple(
            RequestedTopic(topic.topic, tuple(topic.partitions))
            for topic in message.topic_partitions
        )
    election_type = message.election_type if context.version >= ELECTION_TYPE_SINCE else _PREFERRED
    return _ElectLeaders(election_type, topics, message.timeout_ms)


def _elect_leaders(broker: BrokerApi, context: RequestContext, request: _ElectLeaders) -> None:
    """Handle an ElectLeaders request; the response waits until this broker knows the leaders."""
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        context.reply(_refuse_elect_leaders(request, ErrorCode.INVALID_REQUEST))
        return
    controller = broker.controller
    wanted = request.topics
    if wanted is None:
        wanted = tuple(
            RequestedTopic(topic.name, tuple(partition.index for partition in topic.partitions))
            for topic in controller.topics.values()
        )
    keys = dict.fromkeys(
        TopicPartition(name, partition) for name, indexes in wanted for partition in indexes
    )
    is_unclean = request.election_type == _UNCLEAN
    results = controller.leaders.elect_leaders(keys, is_unclean=is_unclean)
    elected = {key: result.leader_epoch for key, result in results.items() if not result.error}

    def result(key: TopicPartition, late: set[TopicPartition]) -> Any:
        error = ErrorCode.REQUEST_TIMED_OUT if key in late else results[key].error
        return _elected(key.partition, error, results[key].message)

    def reply(late: set[TopicPartition]) -> None:
        # As in Kafka, the response to a request for all partitions leaves out those whose leader
        # has not changed, but not their topics.
        hidden = ErrorCode.ELECTION_NOT_NEEDED if request.topics is None else None
        context.reply(
            ElectLeadersResponse(
                replica_election_results=[
                    ReplicaElectionResult(
                        topic=name,
                        partition_result=[
                            result(TopicPartition(name, partition), late)
                            for partition in indexes
                            if results[TopicPartition(name, partition)].error is not hidden
                        ],
                    )
                    for name, indexes in wanted
                ]
            )
        )

    context.operation = broker.elections.wait(request.timeout_ms, elected, reply)


def _elected(index: int, error: ErrorCode, message: str | None = None) -> Any:
    return PartitionResult(
        partition_id=index, error_code=int(error), error_message=truncate_message(message)
    )


def _refuse_elect_leaders(request: _ElectLeaders, code: ErrorCode) -> Any:
    return ElectLeadersResponse(
        error_code=int(code),
        replica_election_results=[
            ReplicaElectionResult(
                topic=name, partition_result=[_elected(index, code) for index in indexes]
            )
            for name, indexes in request.topics or ()
        ],
    )


ELECT_LEADERS = ServedApi(
    messages=ELECT_LEADERS_MESSAGES,
    versions=(0, 2),
    needs_controller=True,
    recorded_timeout_ms=lambda request: request.timeout_ms,
    decode=_decode_elect_leaders,
    handle=_elect_leaders,
    refuse=_refuse_elect_leaders,
    subjects=Subjects(partitions=lambda _broker, request: request.topics or ()),
)


@dataclass(frozen=True, slots=True)
class _AlterPartitionReassignments:
    topics: tuple[tuple[str, tuple[Reassignment, ...]], ...]
    may_change_factor: bool


def _decode_alter_partition_reassignments(
    message: Any, context: RequestContext
) -> _AlterPartitionReassignments:
    """Return what the handler needs of a request; version 0 allows another replication factor."""
    topics = tuple(
        (
            topic.name,
            tuple(
                Reassignment(
                    TopicPartition(topic.name, assigned.partition_index),
                    None if assigned.replicas is None else tuple(assigned.replicas),
                )
                for assigned in topic.partitions
            ),
        )
        for topic in message.topics
    )
    return _AlterPartitionReassignments(topics, bool(message.allow_replication_factor_change))


def _alter_partition_reassignments(
    broker: BrokerApi, context: RequestContext, request: _AlterPartitionReassignments
) -> Any:
    # The response does not wait for the end of the reassignments.
    wanted = [reassignment for _, reassignments in request.topics for reassignment in reassignments]
    refusals = broker.controller.reassignments.alter(
        wanted, may_change_factor=request.may_change_factor
    )
    results = iter(refusals)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.may_change_factor,
        responses=[
            ReassignableTopicResponse(
                name=name,
                partitions=[
                    _altered(reassignment, next(results)) for reassignment in reassignments
                ],
            )
            for name, reassignments in request.topics
        ],
    )


def _altered(reassignment: Reassignment, refusal: ControllerError | None) -> Any:
    return ReassignablePartitionResponse(
        partition_index=reassignment.key.partition,
        error_code=0 if refusal is None else int(refusal.code),
        error_message=None if refusal is None else truncate_message(str(refusal)),
    )


def _named_partitions(request: _AlterPartitionReassignments) -> list[tuple[str, list[int]]]:
    return [
        (name, [reassignment.key.partition for reassignment in reassignments])
        for name, reassignments in request.topics
    ]


def _refuse_alter_partition_reassignments(
    request: _AlterPartitionReassignments, code: ErrorCode
) -> Any:
    topics = refused_topics(
        _named_partitions(request), ReassignableTopicResponse, ReassignablePartitionResponse, code
    )
    return AlterPartitionReassignmentsResponse(error_code=int(code), responses=topics)


ALTER_PARTITION_REASSIGNMENTS = ServedApi(
    messages=ALTER_PARTITION_REASSIGNMENTS_MESSAGES,
    versions=(0, 1),
    needs_controller=True,
    decode=_decode_alter_partition_reassignments,
    answer=_alter_partition_reassignments,
    refuse=_refuse_alter_partition_reassignments,
    subjects=Subjects(partitions=lambda _broker, request: _named_partitions(request)),
)


@dataclass(frozen=True, slots=True)
class _ListPartitionReassignments:
    """A request for the ongoing reassignments of some partitions; None is all."""

    topics: tuple[RequestedTopic, ...] | None


def _decode_list_partition_reassignments(
    message: Any, context: RequestContext
) -> _ListPartitionReassignments:
    if message.topics is None:
        return _ListPartitionReassignments(None)
    return _ListPartitionReassignments(
        tuple(
            RequestedTopic(topic.name, tuple(topic.partition_indexes)) for topic in message.topics
        )
    )


def _list_partition_reassignments(
    broker: BrokerApi, context: RequestContext, request: _ListPartitionReassignments
) -> Any:
    keys = None
    if request.topics is not None:
        keys = [
            TopicPartition(name, partition)
            for name, indexes in request.topics
            for partition in indexes
        ]
    ongoing = broker.controller.reassignments.ongoing(keys)
    by_topic: dict[str, list[Partition]] = {}
    for partition in ongoing:
        by_topic.setdefault(partition.topic, []).append(partition)
    return ListPartitionReassignmentsResponse(
        topics=[
            OngoingTopicReassignment(
                name=name,
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=reassigned.index,
                        replicas=list(reassigned.replicas),
                        adding_replicas=list(reassigned.adding),
                        removing_replicas=list(reassigned.removing),
                    )
                    for reassigned in partitions
                ],
            )
            for name, partitions in by_topic.items()
        ]
    )


LIST_PARTITION_REASSIGNMENTS = ServedApi(
    messages=LIST_PARTITION_REASSIGNMENTS_MESSAGES,
    versions=(0, 0),
    needs_controller=True,
    decode=_decode_list_partition_reassignments,
    answer=_list_partition_reassignments,
    subjects=Subjects(partitions=lambda _broker, request: request.topics or ()),
)
