"""ElectLeaders: make the preferred replicas leaders, or allow unclean elections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import ElectLeadersRequest, ElectLeadersResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import RequestedTopic, ServedApi, request_subjects
from purgatory_broker.metadata.controller_error import ControllerError
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.limits import truncate_message

_Topic = ElectLeadersResponse.ReplicaElectionResult
_Partition = _Topic.PartitionResult

#: The first version with an election type, and the types. Older ones mean the first type.
ELECTION_TYPE_SINCE = 1
_PREFERRED, _UNCLEAN = 0, 1


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for elections.

    Attributes:
        election_type: One of the types above, or an unknown one.
        topics: The partitions; None is all.
        timeout_ms: How long the response may wait, in milliseconds.
    """

    election_type: int
    topics: tuple[RequestedTopic, ...] | None
    timeout_ms: int


def _decode(message: Any, context: RequestContext) -> _Request:
    topics = None
    if message.topic_partitions is not None:
        topics = tuple(
            RequestedTopic(topic.topic, tuple(topic.partitions))
            for topic in message.topic_partitions
        )
    election_type = message.election_type if context.version >= ELECTION_TYPE_SINCE else _PREFERRED
    return _Request(election_type, topics, message.timeout_ms)


def _elect_leaders(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    """Handle an ElectLeaders request; the response waits until this broker knows the leaders."""
    if not broker.reaches_controller:
        context.reply(_error_response(request, ErrorCode.REQUEST_TIMED_OUT))
        return
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        context.reply(_error_response(request, ErrorCode.INVALID_REQUEST))
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
    try:
        results = controller.leaders.elect_leaders(
            keys, is_unclean=request.election_type == _UNCLEAN
        )
    except ControllerError as error:
        context.reply(_error_response(request, error.code))
        return
    elected = {key: result.leader_epoch for key, result in results.items() if not result.error}

    def result(key: TopicPartition, late: set[TopicPartition]) -> Any:
        error = ErrorCode.REQUEST_TIMED_OUT if key in late else results[key].error
        return _result(key.partition, error, results[key].message)

    def reply(late: set[TopicPartition]) -> None:
        # As in Kafka, the response to a request for all partitions leaves out those whose leader
        # has not changed, but not their topics.
        hidden = ErrorCode.ELECTION_NOT_NEEDED if request.topics is None else None
        context.reply(
            ElectLeadersResponse(
                error_code=0,
                replica_election_results=[
                    _Topic(
                        topic=name,
                        partition_result=[
                            result(TopicPartition(name, partition), late)
                            for partition in indexes
                            if results[TopicPartition(name, partition)].error is not hidden
                        ],
                    )
                    for name, indexes in wanted
                ],
            )
        )

    context.operation = broker.elections.wait(request.timeout_ms, elected, reply)


def _result(index: int, error: ErrorCode, message: str | None = None) -> Any:
    return _Partition(
        partition_id=index, error_code=int(error), error_message=truncate_message(message)
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return ElectLeadersResponse(
        error_code=int(code),
        replica_election_results=[
            _Topic(topic=name, partition_result=[_result(index, code) for index in indexes])
            for name, indexes in request.topics or ()
        ],
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    """Return what a request names; one for all partitions names none."""
    return request_subjects(partitions=request.topics or ())


API = ServedApi(
    key=43,
    name="ElectLeaders",
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
    min_version=0,
    max_version=2,
    recorded_timeout_ms=lambda request: request.timeout_ms,
    decode=_decode,
    handle=_elect_leaders,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION}),
)
