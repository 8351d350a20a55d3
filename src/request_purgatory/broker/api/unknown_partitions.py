"""Partitions that do not exist, in requests on committed offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.wire.error_code import ErrorCode


class RequestedPartitions(NamedTuple):
    """The partitions of a request, those that exist apart from the others."""

    #: The topics with a partition that exists, and the request's elements for these partitions.
    known: list[tuple[str, list[Any]]]
    #: The numbers of the other partitions, by topic.
    unknown: dict[str, list[int]]


def split_partitions(broker: BrokerApi, topics: Iterable[Any]) -> RequestedPartitions:
    """Return the partitions of a request's topics.

    Args:
        broker: The broker.
        topics: Elements with a `name` and `partitions`, each with a `partition_index`.
    """
    requested = RequestedPartitions([], {})
    for topic in topics:
        known = []
        for partition in topic.partitions:
            index = partition.partition_index
            if broker.metadata.partition_exists(TopicPartition(topic.name, index)):
                known.append(partition)
            else:
                requested.unknown.setdefault(topic.name, []).append(index)
        if known:
            requested.known.append((topic.name, known))
    return requested


def topic_results(
    requested: RequestedPartitions,
    errors: Iterable[ErrorCode],
    topic_class: Any,
    partition_class: Any,
) -> list[Any]:
    """Return a response's topics: as requested, the partitions that do not exist last.

    Args:
        requested: The partitions.
        errors: The errors of the partitions that exist, in the order of the request.
        topic_class: The class of the topics.
        partition_class: The class of their partitions.
    """
    remaining = iter(errors)
    topics = [
        topic_class(
            name=name,
            partitions=[
                partition_class(
                    partition_index=each.partition_index, error_code=int(next(remaining))
                )
                for each in partitions
            ],
        )
        for name, partitions in requested.known
    ]
    by_name = {topic.name: topic for topic in topics}
    code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for name, indexes in requested.unknown.items():
        refused = [partition_class(partition_index=index, error_code=code) for index in indexes]
        topic = by_name.get(name)
        if topic is None:
            topics.append(topic_class(name=name, partitions=refused))
        else:
            topic.partitions = [*topic.partitions, *refused]
    return topics
