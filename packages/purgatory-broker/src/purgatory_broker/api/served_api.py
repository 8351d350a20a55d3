"""An API of the broker: what each API's file defines under the name `API`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.apis import Api
from purgatory_broker.wire.error_code import ErrorCode


class RequestedTopic(NamedTuple):
    """A topic's name and the numbers of partitions, in the order of the request."""

    name: str
    partitions: tuple[int, ...]


_NOTHING = RequestSubjects(frozenset(), frozenset(), frozenset())


def no_subjects(broker: BrokerApi, request: object) -> RequestSubjects:
    return _NOTHING


def request_subjects(
    *,
    topics: Iterable[str | None] = (),
    partitions: Iterable[tuple[str | None, Iterable[int]]] = (),
    groups: Iterable[str] = (),
) -> RequestSubjects:
    """Return what a request names; a topic of None does not exist."""
    names = {name for name in topics if name is not None}
    keys: set[TopicPartition] = set()
    for name, indexes in partitions:
        if name is not None:
            names.add(name)
            keys.update(TopicPartition(name, index) for index in indexes)
    return RequestSubjects(frozenset(names), frozenset(keys), frozenset(groups))


#: What a handler gets of a request: a dataclass, which it does not change.
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedApi(Api, Generic[R]):
    """An API with its handler.

    Attributes:
        decode: Returns what the handler needs of a message, from the message and its context. The
            message has the fields of Kafka's, and leaves its API's file no further. It is None if
            the version is not supported, see `answers_unsupported_versions`.
        handle: Handles a request of any version that is served, now or later. The request's context
            takes the response.
        error_response: Builds the response that reports an error for every part of a request, as
            `getErrorResponse` of Kafka's request classes; None if the request gets no response. For
            a request that is not handled, or whose handler fails.
        tells_errors: Returns whether the error response of a request, in a version, has a place for
            the error. Injected errors skip the other requests.
        subjects: Returns the topics, partitions and groups that a request names.
        names: The kinds of `subjects` that a request of any version may name.
        recorded_timeout_ms: Returns for how many milliseconds a request may wait for its response,
            for a recorded trace; None if such waits are not recorded.
    """

    decode: Callable[[Any, RequestContext], R]
    handle: Callable[[BrokerApi, RequestContext, R], None]
    error_response: Callable[[R, ErrorCode], Any]
    subjects: Callable[[BrokerApi, R], RequestSubjects]
    tells_errors: Callable[[R, int], bool] = lambda _request, _version: True
    names: frozenset[Subject] = frozenset()
    recorded_timeout_ms: Callable[[R], int] | None = None
