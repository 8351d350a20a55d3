"""ListPartitionReassignments: list the partitions that are moved to other brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import RequestedTopic, ServedApi, request_subjects
from purgatory_broker.metadata.topics import Partition, TopicPartition
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_Topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
_Partition = _Topic.OngoingPartitionReassignment


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for the ongoing reassignments of some partitions; None is all."""

    topics: tuple[RequestedTopic, ...] | None


def _decode(message: Any, context: RequestContext) -> _Request:
    if message.topics is None:
        return _Request(None)
    return _Request(
        tuple(
            RequestedTopic(topic.name, tuple(topic.partition_indexes)) for topic in message.topics
        )
    )


def _list_partition_reassignments(
    broker: BrokerApi, context: RequestContext, request: _Request
) -> None:
    if not broker.reaches_controller:
        context.reply(_error_response(request, ErrorCode.REQUEST_TIMED_OUT))
        return
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
    context.reply(
        ListPartitionReassignmentsResponse(
            error_code=0,
            topics=[
                _Topic(
                    name=name,
                    partitions=[
                        _Partition(
                            partition_index=reassigned.index,
                            replicas=list(reassigned.replicas),
                            adding_replicas=list(reassigned.adding),
                            removing_replicas=list(reassigned.removing),
                        )
                        for reassigned in partitions
                    ],
                )
                for name, partitions in by_topic.items()
            ],
        )
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return ListPartitionReassignmentsResponse(error_code=int(code), topics=[])


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(partitions=request.topics or ())


API = ServedApi(
    key=46,
    name="ListPartitionReassignments",
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
    min_version=0,
    max_version=0,
    decode=_decode,
    handle=_list_partition_reassignments,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION}),
)
