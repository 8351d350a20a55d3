"""What a client may do: the one place where handlers ask the authorizer.

Without an authorizer, everything is allowed.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import Q, ServedApi
from purgatory_broker.metadata.acls import CLUSTER_NAME, AclOperation, AclResource
from purgatory_broker.metadata.authorizer import Requester
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.request_context import RequestContext

logger = logging.getLogger(__name__)

#: The error of a resource that a client may not use.
DENIED = {
    AclResource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
#: The operations of each type that responses tell of.
_OPERATIONS = {
    AclResource.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResource.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResource.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
#: The authorized operations of a client that has not asked for them.
NOT_ASKED = -(2**31)


class _Everything:
    def __contains__(self, _name: object) -> bool:
        return True


_EVERYTHING = _Everything()


def _requester(context: RequestContext) -> Requester:
    client = context.client
    return Requester(f"User:{client.user}", client.client_host.removeprefix("/"))


def is_allowed(
    broker: BrokerApi,
    context: RequestContext,
    operation: AclOperation,
    resource: AclResource,
    name: str = CLUSTER_NAME,
) -> bool:
    if broker.authorizer is None:
        return True
    requester = _requester(context)
    allowed = broker.authorizer.allows(requester, operation, resource, name)
    if not allowed:
        logger.debug(
            "node %d denies %s from %s %s of %s %r for %s",
            broker.node_id,
            requester.principal,
            requester.host,
            operation.name,
            resource.name,
            name,
            context.header.api.name,
        )
    return allowed


def allowed_topics(
    broker: BrokerApi, context: RequestContext, operation: AclOperation, names: Iterable[str]
) -> Container[str]:
    """Return those of some topics, existing or not, on which the operation is allowed."""
    if broker.authorizer is None:
        return _EVERYTHING
    return {
        name
        for name in dict.fromkeys(names)
        if is_allowed(broker, context, operation, AclResource.TOPIC, name)
    }


def is_allowed_some_topic(
    broker: BrokerApi, context: RequestContext, operation: AclOperation
) -> bool:
    """Return whether the operation is allowed on any topic, existing or not."""
    authorizer = broker.authorizer
    return authorizer is None or authorizer.allows_some(
        _requester(context), operation, AclResource.TOPIC
    )


def require(
    broker: BrokerApi,
    context: RequestContext,
    operation: AclOperation,
    resource: AclResource,
    name: str = CLUSTER_NAME,
) -> None:
    """Refuse the request as a whole if the operation is not allowed."""
    if not is_allowed(broker, context, operation, resource, name):
        raise ControllerError(
            DENIED[resource], f"{operation.name} of {resource.name} {name!r} is not allowed"
        )


def require_all(
    broker: BrokerApi, api: ServedApi[Q, Any], context: RequestContext, request: Q
) -> None:
    """Refuse a request as a whole that does not have what its API requires."""
    if broker.authorizer is None:
        return
    for resource, operation in api.requires.items():
        names: Iterable[str] = (CLUSTER_NAME,)
        if resource is AclResource.GROUP and api.messages.groups is not None:
            names = api.messages.groups(request)
        elif (
            resource is AclResource.TRANSACTIONAL_ID and api.messages.transactional_ids is not None
        ):
            names = api.messages.transactional_ids(request)
        for name in names:
            require(broker, context, operation, resource, name)


def authorized_operations(
    broker: BrokerApi, context: RequestContext, resource: AclResource, name: str = CLUSTER_NAME
) -> int:
    """Return the allowed operations as bits.

    For the cluster there are none, unless the client may describe it.
    """
    authorizer = broker.authorizer
    operations: Iterable[AclOperation] = _OPERATIONS[resource]
    if authorizer is not None:
        requester = _requester(context)
        operations = [
            operation
            for operation in operations
            if authorizer.allows(requester, operation, resource, name)
        ]
        if resource is AclResource.CLUSTER and AclOperation.DESCRIBE not in operations:
            operations = ()
    return sum(1 << operation for operation in operations)
