"""Injected errors for some of the topics or partitions that a request names.

The others are handled. The response to them and the error response are then put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.fetch import (
    FETCH_MESSAGES,
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.topics import TopicPartition

#: Returns whether a topic has the error; of a request with partitions, whether one of them has it.
HasError = Callable[[str, int | None], bool]
#: Puts the errors into the response to what was handled.
Merge = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields in which a request and its response have their topics and partitions.

    Attributes:
        partitions: of a topic of the request; None if it names topics alone.
        index: the number of a partition.
    """

    topics: str = "topics"
    partitions: str | None = "partitions"
    index: str = "partition_index"
    response_topics: str = "topics"
    response_partitions: str = "partitions"


_FIELDS = {
    "DeleteRecords": _Fields(),
    "ListOffsets": _Fields(),
    "Metadata": _Fields(partitions=None),
    "OffsetCommit": _Fields(),
    "OffsetForLeaderEpoch": _Fields(index="partition"),
    "Produce": _Fields("topic_data", "partition_data", "index", "responses", "partition_responses"),
    "TxnOffsetCommit": _Fields(),
}
#: The APIs whose responses have an error for each topic or partition, so that some may fail.
PARTIAL_APIS = frozenset({*_FIELDS, "Fetch"})


def split_errors(
    broker: BrokerApi,
    api: ServedApi[Any, Any],
    request: Any,
    version: int,
    code: ErrorCode,
    has_error: HasError,
) -> tuple[Any, Merge] | None:
    """Return the request without what has the error, and what completes the response to it.

    None if all of the request has the error, or if its response can't have it in parts.
    """
    if api.name == "Fetch":
        return _split_fetch(broker, request, code, has_error)
    fields = _FIELDS.get(api.name)
    if fields is None:
        return None
    failing: list[Any] = []
    handled: list[Any] = []
    for topic in getattr(request, fields.topics) or ():
        name = _name(topic) or broker.metadata.topic_name(getattr(topic, "topic_id", None)) or ""
        if fields.partitions is None:
            (failing if has_error(name, None) else handled).append(topic)
            continue
        parts: dict[bool, list[Any]] = {True: [], False: []}
        for partition in getattr(topic, fields.partitions):
            parts[has_error(name, getattr(partition, fields.index))].append(partition)
        for is_failing, topics in ((True, failing), (False, handled)):
            if parts[is_failing]:
                topics.append(replace(topic, **{fields.partitions: parts[is_failing]}))
    if not handled:
        return None
    errors = api.error_response(replace(request, **{fields.topics: failing}), code, version)

    def merge(response: Any) -> Any:
        # Produce with acks=0 has no response.
        if response is not None and errors is not None:
            _merge(
                getattr(response, fields.response_topics),
                getattr(errors, fields.response_topics),
                fields.response_partitions,
            )
        return response

    return replace(request, **{fields.topics: handled}), merge


def _merge(topics: list[Any], failed: list[Any], partitions: str) -> None:
    for topic in failed:
        same = next((each for each in topics if _identity(each) == _identity(topic)), None)
        if same is None or not hasattr(topic, partitions):
            topics.append(topic)
        else:
            getattr(same, partitions).extend(getattr(topic, partitions))


def _identity(topic: Any) -> object:
    return getattr(topic, "topic_id", None) or _name(topic)


def _name(topic: Any) -> str | None:
    name: str | None = topic.name if hasattr(topic, "name") else topic.topic
    return name


def _split_fetch(
    broker: BrokerApi, request: FetchRequest, code: ErrorCode, has_error: HasError
) -> tuple[FetchRequest, Merge]:
    """Let the whole request be handled, at once, and replace what it has read by the errors.

    A session has more partitions than the request names, and goes on.
    """

    def merge(response: Any) -> Any:
        for topic in response.responses:
            name = topic.topic or broker.metadata.topic_name(topic.topic_id) or ""
            topic.partitions = [
                partition
                for partition in topic.partitions
                if not has_error(name, partition.partition_index)
            ]
        response.responses = [topic for topic in response.responses if topic.partitions]
        if not response.error_code:
            failing = replace(request, topics=list(_failing(broker, request, has_error)))
            errors = FETCH_MESSAGES.error_response(failing, int(code))
            _merge(response.responses, errors.responses, "partitions")
        return response

    return replace(request, max_wait_ms=0), merge


def _failing(broker: BrokerApi, request: FetchRequest, has_error: HasError) -> Iterator[FetchTopic]:
    named = {
        TopicPartition(name, partition.partition)
        for topic in request.topics
        if (name := topic.topic or broker.metadata.topic_name(topic.topic_id))
        for partition in topic.partitions
    }
    if request.session_epoch > 0:
        named.update(broker.fetch_sessions.partitions_of(request.session_id))
    for key in sorted(named):
        if has_error(key.topic, key.partition):
            topic_id = broker.metadata.topic_id(key.topic)
            yield FetchTopic(key.topic, topic_id, [FetchPartition(key.partition)])
