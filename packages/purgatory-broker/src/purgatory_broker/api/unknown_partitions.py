"""Partitions that do not exist, in requests on committed offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.wire.error_code import ErrorCode


class _RequestElement(Protocol):
    @property
    def partition(self) -> int: ...


E = TypeVar("E", bound=_RequestElement)


class _RequestedPartitions(NamedTuple, Generic[E]):
    #: The topics with a partition that exists, and the request's elements for these partitions.
    known: list[tuple[str, list[E]]]
    #: The numbers of the other partitions, by topic.
    unknown: dict[str, list[int]]


def split_partitions(
    broker: BrokerApi, topics: Iterable[tuple[str, Iterable[E]]]
) -> _RequestedPartitions[E]:
    requested = _RequestedPartitions[E]([], {})
    for name, partitions in topics:
        known = []
        for element in partitions:
            if broker.metadata.partition_exists(TopicPartition(name, element.partition)):
                known.append(element)
            else:
                requested.unknown.setdefault(name, []).append(element.partition)
        if known:
            requested.known.append((name, known))
    return requested


def topic_results(
    requested: _RequestedPartitions[E],
    errors: Iterable[ErrorCode],
    topic_class: Any,
    partition_class: Any,
) -> list[Any]:
    """Return a response's topics: as requested, the partitions that do not exist last."""
    remaining = iter(errors)
    topics = [
        topic_class(
            name=name,
            partitions=[
                partition_class(partition_index=element.partition, error_code=int(next(remaining)))
                for element in partitions
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
