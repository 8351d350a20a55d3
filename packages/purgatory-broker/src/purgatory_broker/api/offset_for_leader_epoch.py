"""OffsetForLeaderEpoch: find where an epoch ends, by which clients detect a truncated log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.leader_replica import leader_replica
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.replica import ReplicaError
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_EpochTopic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_EpochEnd = _EpochTopic.EpochEndOffset


@dataclass(frozen=True, slots=True)
class _PartitionQuestion:
    """A question for the end of an epoch in a partition.

    Attributes:
        current_leader_epoch: The leader epoch that the client knows; -1 for none.
        leader_epoch: The epoch whose end is asked for.
    """

    index: int
    current_leader_epoch: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class _TopicQuestions:
    name: str
    partitions: tuple[_PartitionQuestion, ...]


@dataclass(frozen=True, slots=True)
class _Request:
    topics: tuple[_TopicQuestions, ...]


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
        tuple(
            _TopicQuestions(
                topic.topic,
                tuple(
                    _PartitionQuestion(
                        partition.partition, partition.current_leader_epoch, partition.leader_epoch
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )


def _offset_for_leader_epoch(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    topics = []
    for topic in request.topics:
        results = []
        for partition in topic.partitions:
            result = _EpochEnd(
                partition=partition.index, error_code=0, leader_epoch=-1, end_offset=-1
            )
            key = TopicPartition(topic.name, partition.index)
            try:
                log = leader_replica(broker, key, partition.current_leader_epoch).log
                epoch_end = log.end_offset_for_epoch(partition.leader_epoch)
                result.leader_epoch, result.end_offset = epoch_end
            except ReplicaError as error:
                result.error_code = int(error.code)
            results.append(result)
        topics.append(_EpochTopic(topic=topic.name, partitions=results))
    context.reply(OffsetForLeaderEpochResponse(topics=topics))


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return OffsetForLeaderEpochResponse(
        topics=[
            _EpochTopic(
                topic=topic.name,
                partitions=[
                    _EpochEnd(partition=partition.index, error_code=int(code))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(
        partitions=(
            (topic.name, (partition.index for partition in topic.partitions))
            for topic in request.topics
        )
    )


API = ServedApi(
    key=23,
    name="OffsetForLeaderEpoch",
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    min_version=2,
    max_version=4,
    decode=_decode,
    handle=_offset_for_leader_epoch,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION}),
)
