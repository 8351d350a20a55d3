"""An API of the broker: what the files of this package define."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from purgatory_broker._wire.api_messages import ApiMessages, NamedTopic
from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject

#: The request's and the response's class. A handler does not change the request.
Q = TypeVar("Q")
S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedApi(Api, Generic[Q, S]):
    """An API with what handles its requests: `answer`, or `handle` if the response may wait.

    Attributes:
        answer: Returns the response to a request of any version that is served.
        handle: Handles such a request, now or later. The request's context takes the response.
        refuse: Returns the `error_response` in a version, where it is not the messages' own; None
            for a request without a response.
        more_topics: Returns topics that a request names beside those that its messages tell.
        more_groups: Returns such ids of groups.
        more_transactional_ids: Returns such transactional ids.
        requires: What a client has to be allowed for a request as a whole: operations on the
            cluster, or on each group or transactional id that the messages tell. The handler itself
            asks for the rest, such as topics.
        needs_controller: Requests are answered with REQUEST_TIMED_OUT while the broker does not
            reach the controller.
        tells_errors: Returns whether the error response of a request, in a version, has a place for
            the error. Injected errors skip the other requests.
        recorded_timeout_ms: Returns for how many milliseconds a request may wait for its response,
            for a recorded trace; None if such waits are not recorded.
    """

    messages: ApiMessages[Q, S]
    answer: Callable[[BrokerApi, RequestContext, Q], S] | None = None
    handle: Callable[[BrokerApi, RequestContext, Q], None] | None = None
    refuse: Callable[[Q, ErrorCode, int], S | None] | None = None
    more_topics: Callable[[BrokerApi, Q], Iterable[NamedTopic]] | None = None
    more_groups: Callable[[Q], Iterable[str]] | None = None
    more_transactional_ids: Callable[[Q], Iterable[str]] | None = None
    requires: Mapping[AclResource, AclOperation] = field(default_factory=dict)
    needs_controller: bool = False
    tells_errors: Callable[[Q, int], bool] = lambda _request, _version: True
    recorded_timeout_ms: Callable[[Q], int] | None = None

    def error_response(self, request: Q, code: ErrorCode, version: int) -> S | None:
        """Return the response that reports an error for every part of a request.

        As `getErrorResponse` of Kafka's request classes; None if the request gets no response. For
        a request that is not handled, or whose handler fails.
        """
        if self.refuse is not None:
            return self.refuse(request, code, version)
        return self.messages.error_response(request, int(code))

    def subjects(self, broker: BrokerApi, request: Q) -> RequestSubjects:
        """Return what a request names; topics that do not exist by their names alone."""
        topics: set[str] = set()
        partitions: set[TopicPartition] = set()
        for given, topic_id, indexes in self._named_topics(broker, request):
            name = given or broker.metadata.topic_name(topic_id)
            if name is not None:
                topics.add(name)
                partitions.update(TopicPartition(name, index) for index in indexes)
        groups: set[str] = set()
        for find in (self.messages.groups, self.more_groups):
            if find is not None:
                groups.update(find(request))
        transactional_ids: set[str] = set()
        for find in (self.messages.transactional_ids, self.more_transactional_ids):
            if find is not None:
                transactional_ids.update(find(request))
        return RequestSubjects(
            frozenset(topics),
            frozenset(partitions),
            frozenset(groups),
            frozenset(transactional_ids),
        )

    def _named_topics(self, broker: BrokerApi, request: Q) -> Iterator[NamedTopic]:
        if self.messages.topics is not None:
            yield from self.messages.topics(request)
        if self.more_topics is not None:
            yield from self.more_topics(broker, request)

    @property
    def names(self) -> frozenset[Subject]:
        """The kinds of subjects that a request of some version may name."""
        named = {
            Subject.TOPIC: self.messages.topics or self.more_topics,
            Subject.PARTITION: self.messages.names_partitions,
            Subject.GROUP: self.messages.groups or self.more_groups,
            Subject.TRANSACTIONAL_ID: (
                self.messages.transactional_ids or self.more_transactional_ids
            ),
        }
        return frozenset(kind for kind, found in named.items() if found)
