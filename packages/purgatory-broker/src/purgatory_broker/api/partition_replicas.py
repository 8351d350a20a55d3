"""ElectLeaders, and the reassignments of partitions to other brokers."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS_MESSAGES,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from purgatory_broker._wire.protocol.elect_leaders import (
    ELECT_LEADERS_MESSAGES,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from purgatory_broker._wire.protocol.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS_MESSAGES,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.reassignment import Reassignment
from purgatory_broker.metadata.topics import ControllerError, Partition, TopicPartition
from purgatory_broker.request_context import RequestContext

#: The first version with an election type, and the types. Older ones mean the first type.
ELECTION_TYPE_SINCE = 1
_PREFERRED, _UNCLEAN = 0, 1


def _elect_leaders(
    broker: BrokerApi, context: RequestContext, request: ElectLeadersRequest
) -> None:
    """Handle an ElectLeaders request; the response waits until this broker knows the leaders."""
    election_type = request.election_type if context.version >= ELECTION_TYPE_SINCE else _PREFERRED
    if election_type not in (_PREFERRED, _UNCLEAN):
        refused = ELECT_LEADERS_MESSAGES.error_response(request, ErrorCode.INVALID_REQUEST)
        context.reply(refused)
        return
    controller = broker.controller
    wanted: list[tuple[str, list[int]]]
    if request.topic_partitions is None:
        wanted = [
            (topic.name, [partition.index for partition in topic.partitions])
            for topic in controller.topics.values()
        ]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    keys = dict.fromkeys(
        TopicPartition(name, partition) for name, indexes in wanted for partition in indexes
    )
    is_unclean = election_type == _UNCLEAN
    results = controller.leaders.elect_leaders(keys, is_unclean=is_unclean)
    elected = {key: result.leader_epoch for key, result in results.items() if not result.error}

    def result(key: TopicPartition, late: set[TopicPartition]) -> PartitionResult:
        error = ErrorCode.REQUEST_TIMED_OUT if key in late else results[key].error
        return _elected(key.partition, error, results[key].message)

    def reply(late: set[TopicPartition]) -> None:
        # As in Kafka, the response to a request for all partitions leaves out those whose leader
        # has not changed, but not their topics.
        hidden = ErrorCode.ELECTION_NOT_NEEDED if request.topic_partitions is None else None
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


def _elected(index: int, error: ErrorCode, message: str | None) -> PartitionResult:
    return PartitionResult(
        partition_id=index, error_code=error, error_message=truncate_message(message)
    )


ELECT_LEADERS = ServedApi(
    messages=ELECT_LEADERS_MESSAGES,
    versions=(0, 2),
    requires={AclResource.CLUSTER: AclOperation.ALTER},
    needs_controller=True,
    recorded_timeout_ms=lambda request: request.timeout_ms,
    handle=_elect_leaders,
)


def _alter_partition_reassignments(
    broker: BrokerApi, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Answer; version 0 allows another replication factor."""
    wanted = [
        Reassignment(
            TopicPartition(topic.name, assigned.partition_index),
            None if assigned.replicas is None else tuple(assigned.replicas),
        )
        for topic in request.topics
        for assigned in topic.partitions
    ]
    # The response does not wait for the end of the reassignments.
    refusals = iter(
        broker.controller.reassignments.alter(
            wanted, may_change_factor=request.allow_replication_factor_change
        )
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _altered(assigned.partition_index, next(refusals))
                    for assigned in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _altered(index: int, refusal: ControllerError | None) -> ReassignablePartitionResponse:
    if refusal is None:
        return ReassignablePartitionResponse(partition_index=index, error_message=None)
    return ReassignablePartitionResponse(
        partition_index=index,
        error_code=refusal.code,
        error_message=truncate_message(str(refusal)),
    )


ALTER_PARTITION_REASSIGNMENTS = ServedApi(
    messages=ALTER_PARTITION_REASSIGNMENTS_MESSAGES,
    versions=(0, 1),
    requires={AclResource.CLUSTER: AclOperation.ALTER},
    needs_controller=True,
    answer=_alter_partition_reassignments,
)


def _list_partition_reassignments(
    broker: BrokerApi, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    keys = None
    if request.topics is not None:
        keys = [
            TopicPartition(topic.name, partition)
            for topic in request.topics
            for partition in topic.partition_indexes
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
    requires={AclResource.CLUSTER: AclOperation.DESCRIBE},
    needs_controller=True,
    answer=_list_partition_reassignments,
)
