"""The groups of a request that describes groups whose assignments the coordinator makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.access import (
    DENIED,
    allowed_topics,
    authorized_operations,
    is_allowed,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.request_context import RequestContext

#: Kafka's message to a client that describes a group whose members have other topics.
_UNDESCRIBABLE_TOPICS = (
    "The group has described topic(s) that the client is not authorized to describe."
)


class _Request(Protocol):
    group_ids: list[str]
    include_authorized_operations: bool


class _Group(Protocol):
    error_code: int
    authorized_operations: int

    @property
    def members(self) -> Sequence[Any]: ...


G = TypeVar("G", bound=_Group)


def describe_groups(
    broker: BrokerApi,
    context: RequestContext,
    request: _Request,
    group_class: Callable[..., G],
    describe: Callable[[str], G],
    *assignments: str,
) -> list[G]:
    """Describe each group once, or say why the client may not see it.

    `assignments` are the fields of a member that have topics: all of them must be describable.
    """
    groups = []
    for group_id in dict.fromkeys(request.group_ids):
        if not is_allowed(broker, context, AclOperation.DESCRIBE, AclResource.GROUP, group_id):
            groups.append(group_class(error_code=DENIED[AclResource.GROUP], group_id=group_id))
            continue
        group = describe(group_id)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = authorized_operations(
                broker, context, AclResource.GROUP, group_id
            )
        names = {
            topic.topic_name
            for member in group.members
            for field in assignments
            if (assignment := getattr(member, field)) is not None
            for topic in assignment.topic_partitions
        }
        allowed = allowed_topics(broker, context, AclOperation.DESCRIBE, names)
        if any(name not in allowed for name in names):
            group = group_class(
                error_code=DENIED[AclResource.TOPIC],
                error_message=_UNDESCRIBABLE_TOPICS,
                group_id=group_id,
            )
        groups.append(group)
    return groups
