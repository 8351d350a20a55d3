"""DescribeProducers: describe the idempotent producers of partitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import RequestedTopic, ServedApi, request_subjects
from purgatory_broker.metadata.topics import TopicPartition, topic_name_error
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_Topic = DescribeProducersResponse.TopicResponse
_Partition = _Topic.PartitionResponse
_Producer = _Partition.ProducerState

#: The longest error message: every partition of a topic repeats the topic's name.
_MAX_MESSAGE_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class _Request:
    topics: tuple[RequestedTopic, ...]


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
        tuple(
            RequestedTopic(topic.name, tuple(topic.partition_indexes)) for topic in message.topics
        )
    )


def _describe_producers(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    # Each partition once: a small request that repeats one would have a huge response.
    wanted: dict[str, dict[int, None]] = {}
    for name, indexes in request.topics:
        wanted.setdefault(name, {}).update(dict.fromkeys(indexes))
    context.reply(
        DescribeProducersResponse(
            throttle_time_ms=0,
            topics=[
                _Topic(name=name, partitions=_describe_topic(broker, name, indexes))
                for name, indexes in wanted.items()
            ],
        )
    )


def _describe_topic(broker: BrokerApi, name: str, indexes: Iterable[int]) -> list[Any]:
    error = topic_name_error(name)
    if error is not None:
        message = f"Topic name is invalid: {error}"[:_MAX_MESSAGE_CHARACTERS]
        return [_refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION, message) for index in indexes]
    return [_describe(broker, TopicPartition(name, index)) for index in indexes]


def _describe(broker: BrokerApi, key: TopicPartition) -> Any:
    replica = broker.replicas.find(key)
    if replica is None:
        if broker.metadata.partition_exists(key):
            return _refused(key.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        message = "This server does not host this topic-partition."
        return _refused(key.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return _Partition(
        partition_index=key.partition,
        error_code=0,
        error_message=None,
        active_producers=[
            _Producer(
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=-1,
                current_txn_start_offset=-1,
            )
            for producer_id, producer in replica.log.producers.items()
        ],
    )


def _refused(index: int, code: ErrorCode, message: str | None = None) -> Any:
    return _Partition(
        partition_index=index, error_code=int(code), error_message=message, active_producers=[]
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return DescribeProducersResponse(
        topics=[
            _Topic(name=name, partitions=[_refused(index, code) for index in indexes])
            for name, indexes in request.topics
        ]
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(partitions=request.topics)


API = ServedApi(
    key=61,
    name="DescribeProducers",
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
    min_version=0,
    max_version=0,
    decode=_decode,
    handle=_describe_producers,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION}),
)
