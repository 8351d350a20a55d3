"""Partitions that do not exist, in requests on committed offsets."""

from __future__ import annotations

from typing import Any

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.wire.error_code import ErrorCode


def remove_unknown_partitions(broker: BrokerApi, request: Any) -> dict[str, list[int]]:
    """Remove unknown partitions from a request.

    Returns:
        The indexes of the removed partitions by topic.
    """
    unknown: dict[str, list[int]] = {}
    known = []
    for topic in request.topics:
        existing = []
        for partition in topic.partitions:
            if broker.metadata.partition_exists(
                TopicPartition(topic.name, partition.partition_index)
            ):
                existing.append(partition)
            else:
                unknown.setdefault(topic.name, []).append(partition.partition_index)
        topic.partitions = existing
        if existing:
            known.append(topic)
    request.topics = known
    return unknown


def add_unknown_partitions(
    topics: list[Any], unknown: dict[str, list[int]], topic_class: Any, partition_class: Any
) -> None:
    """Add unknown partitions, with their error, to a response's topics."""
    code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    by_name = {topic.name: topic for topic in topics}
    for name, partitions in unknown.items():
        refused = [partition_class(partition_index=index, error_code=code) for index in partitions]
        topic = by_name.get(name)
        if topic is None:
            topics.append(topic_class(name=name, partitions=refused))
        else:
            topic.partitions = [*topic.partitions, *refused]
