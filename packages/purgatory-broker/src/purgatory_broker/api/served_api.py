"""An API of the broker: what the files of this package define."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject


class RequestedTopic(NamedTuple):
    """A topic's name and the numbers of partitions, in the order of the request."""

    name: str
    partitions: tuple[int, ...]


def refused_topics(
    topics: Iterable[tuple[str, Iterable[int]]],
    topic_class: Any,
    partition_class: Any,
    code: ErrorCode,
    **fields: Any,
) -> list[Any]:
    """Return a response's topics, with an error and some other fields for each partition."""
    return [
        topic_class(
            name=name,
            partitions=[
                partition_class(partition_index=index, error_code=int(code), **fields)
                for index in indexes
            ],
        )
        for name, indexes in topics
    ]


#: What a handler gets of a request: a dataclass, which it does not change.
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects(Generic[R]):
    """What a request names: how to find its topics, its partitions by topic, and its groups.

    A topic of None does not exist. What requests of no version name has no function.
    """

    topics: Callable[[BrokerApi, R], Iterable[str | None]] | None = None
    partitions: Callable[[BrokerApi, R], Iterable[tuple[str | None, Iterable[int]]]] | None = None
    groups: Callable[[BrokerApi, R], Iterable[str]] | None = None

    def __call__(self, broker: BrokerApi, request: R) -> RequestSubjects:
        topics = set() if self.topics is None else set(self.topics(broker, request))
        partitions: set[TopicPartition] = set()
        for name, indexes in () if self.partitions is None else self.partitions(broker, request):
            if name is not None:
                topics.add(name)
                partitions.update(TopicPartition(name, index) for index in indexes)
        groups = () if self.groups is None else self.groups(broker, request)
        names = frozenset(name for name in topics if name is not None)
        return RequestSubjects(names, frozenset(partitions), frozenset(groups))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedApi(Api, Generic[R]):
    """An API with what handles its requests: `answer`, or `handle` if the response may wait.

    Attributes:
        decode: Returns what the handler needs of a message, from the message and its context. The
            message has the fields of Kafka's, and leaves its API's file no further. It is None if
            the version is not supported, see `answers_unsupported_versions`.
        answer: Returns the response to a request of any version that is served.
        handle: Handles such a request, now or later. The request's context takes the response.
        refuse: Builds the `error_response`, unless that has an error code and nothing else.
        needs_controller: Requests are answered with REQUEST_TIMED_OUT while the broker does not
            reach the controller.
        tells_errors: Returns whether the error response of a request, in a version, has a place for
            the error. Injected errors skip the other requests.
        recorded_timeout_ms: Returns for how many milliseconds a request may wait for its response,
            for a recorded trace; None if such waits are not recorded.
    """

    decode: Callable[[Any, RequestContext], R]
    answer: Callable[[BrokerApi, RequestContext, R], Any] | None = None
    handle: Callable[[BrokerApi, RequestContext, R], None] | None = None
    refuse: Callable[[R, ErrorCode], Any] | None = None
    subjects: Subjects[R] = field(default_factory=Subjects)
    needs_controller: bool = False
    tells_errors: Callable[[R, int], bool] = lambda _request, _version: True
    recorded_timeout_ms: Callable[[R], int] | None = None

    def error_response(self, request: R, code: ErrorCode) -> Any:
        """Return the response that reports an error for every part of a request.

        As `getErrorResponse` of Kafka's request classes; None if the request gets no response. For
        a request that is not handled, or whose handler fails.
        """
        if self.refuse is not None:
            return self.refuse(request, code)
        return self.messages.response(error_code=int(code))

    @property
    def names(self) -> frozenset[Subject]:
        """The kinds of subjects that a request of some version may name."""
        subjects = self.subjects
        named = {
            Subject.TOPIC: subjects.topics or subjects.partitions,
            Subject.PARTITION: subjects.partitions,
            Subject.GROUP: subjects.groups,
        }
        return frozenset(kind for kind, find in named.items() if find is not None)
