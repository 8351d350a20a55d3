"""The topics, partitions and groups that requests name, by which faults are limited to some."""

from __future__ import annotations

from collections.abc import Iterable

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestSubjects

_NOTHING = RequestSubjects(frozenset(), frozenset(), frozenset())


def no_subjects(broker: BrokerApi, request: object) -> RequestSubjects:
    """Return what a request names that names nothing."""
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
