"""The topics, partitions and groups that a request of any API names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.request_context import RequestContext, RequestSubjects

#: The fields of requests with topics: names, or structures with a name or an id.
_TOPIC_FIELDS = ("topics", "topic_data", "topic_names", "topic_partitions")
#: The fields of topics with partitions: numbers, or structures with a number.
_PARTITION_FIELDS = ("partitions", "partition_data", "partition_indexes")
_PARTITION_NUMBERS = ("partition_index", "partition", "index")
#: The type of a topic among the resources of requests for configs.
_TOPIC_RESOURCE = 2
#: The type of a group among the keys of FindCoordinator.
_GROUP_KEY = 0


def request_subjects(broker: BrokerApi, context: RequestContext, request: Any) -> RequestSubjects:
    """Return the topics, partitions and groups that a request names.

    A fetch names the partitions of its session as well. A request for all topics names none.

    Args:
        broker: The broker, which knows topic ids and fetch sessions.
        context: Of the request.
        request: The decoded request.
    """
    names: set[str] = set()
    partitions: set[TopicPartition] = set()
    for topic in _topics(request):
        name = _topic_name(broker, topic)
        if name is not None:
            names.add(name)
            partitions.update(TopicPartition(name, each) for each in _partitions(topic))
    if context.header.api.name == "Fetch" and request.session_epoch > 0:
        for key in broker.fetch_sessions.partitions_of(request.session_id):
            names.add(key.topic)
            partitions.add(key)
    return RequestSubjects(frozenset(names), frozenset(partitions), frozenset(_groups(request)))


def _elements(message: Any, *fields: str) -> Iterator[Any]:
    for name in fields:
        value = getattr(message, name, None)
        if isinstance(value, (list, tuple)):
            yield from value


def _topics(request: Any) -> Iterator[Any]:
    yield from _elements(request, *_TOPIC_FIELDS)
    for group in _elements(request, "groups"):
        yield from _elements(group, "topics")
    for resource in _elements(request, "resources"):
        if resource.resource_type == _TOPIC_RESOURCE:
            yield resource.resource_name


def _topic_name(broker: BrokerApi, topic: Any) -> str | None:
    if isinstance(topic, str):
        return topic
    name = getattr(topic, "name", None) or getattr(topic, "topic", None)
    if name:
        return str(name)
    topic_id = getattr(topic, "topic_id", None)
    return None if topic_id is None else broker.metadata.names.get(topic_id)


def _partitions(topic: Any) -> Iterator[int]:
    for each in _elements(topic, *_PARTITION_FIELDS):
        if isinstance(each, int):
            yield each
            continue
        for field in _PARTITION_NUMBERS:
            number = getattr(each, field, None)
            if number is not None:
                yield number
                break


def _groups(request: Any) -> Iterator[str]:
    # Empty where the version has a list of groups instead.
    if getattr(request, "group_id", None):
        yield request.group_id
    for group in _elements(request, "groups", "groups_names"):
        yield group if isinstance(group, str) else group.group_id
    if getattr(request, "key_type", None) == _GROUP_KEY:
        if request.key:
            yield request.key
        yield from _elements(request, "coordinator_keys")
