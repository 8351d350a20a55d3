"""AlterPartitionReassignments: move partitions to other brokers, or cancel that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.metadata.controller_error import ControllerError
from purgatory_broker.metadata.reassignment import Reassignment
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.limits import truncate_message

_Topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
_Partition = _Topic.ReassignablePartitionResponse


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for reassignments, by topic."""

    topics: tuple[tuple[str, tuple[Reassignment, ...]], ...]
    may_change_factor: bool


def _decode(message: Any, context: RequestContext) -> _Request:
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
    return _Request(topics, bool(message.allow_replication_factor_change))


def _alter_partition_reassignments(
    broker: BrokerApi, context: RequestContext, request: _Request
) -> None:
    """Handle an AlterPartitionReassignments request; the response does not wait for the end."""
    if not broker.reaches_controller:
        context.reply(_error_response(request, ErrorCode.REQUEST_TIMED_OUT))
        return
    wanted = [reassignment for _, reassignments in request.topics for reassignment in reassignments]
    try:
        refusals = broker.controller.reassignments.alter(
            wanted, may_change_factor=request.may_change_factor
        )
    except ControllerError as error:
        context.reply(_error_response(request, error.code))
        return
    results = iter(refusals)
    context.reply(
        AlterPartitionReassignmentsResponse(
            error_code=0,
            allow_replication_factor_change=request.may_change_factor,
            responses=[
                _Topic(
                    name=name,
                    partitions=[
                        _result(reassignment, next(results)) for reassignment in reassignments
                    ],
                )
                for name, reassignments in request.topics
            ],
        )
    )


def _result(reassignment: Reassignment, refusal: ControllerError | None) -> Any:
    return _Partition(
        partition_index=reassignment.key.partition,
        error_code=0 if refusal is None else int(refusal.code),
        error_message=None if refusal is None else truncate_message(str(refusal)),
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return AlterPartitionReassignmentsResponse(
        error_code=int(code),
        responses=[
            _Topic(
                name=name,
                partitions=[
                    _Partition(partition_index=reassignment.key.partition, error_code=int(code))
                    for reassignment in reassignments
                ],
            )
            for name, reassignments in request.topics
        ],
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(
        partitions=[
            (name, [reassignment.key.partition for reassignment in reassignments])
            for name, reassignments in request.topics
        ]
    )


API = ServedApi(
    key=45,
    name="AlterPartitionReassignments",
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
    min_version=0,
    max_version=1,
    decode=_decode,
    handle=_alter_partition_reassignments,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION}),
)
