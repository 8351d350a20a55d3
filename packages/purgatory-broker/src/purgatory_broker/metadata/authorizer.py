"""The authorizer: decides by the ACLs what a client may do, as Kafka's StandardAuthorizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from purgatory_broker.metadata.acls import (
    EVERY_USER,
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Acls,
)

#: What also allows an operation. A denial of these denies themselves alone.
_IMPLIED_BY = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
#: A name that no ACL is expected to have; Kafka asks for it, too.
_SOME_NAME = "hardcode"


class Requester(NamedTuple):
    """Who asks."""

    #: Such as "User:alice".
    principal: str
    #: The IP address.
    host: str


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Deny before allow; without any ACL of a resource, only `allows_without_acls` decides."""

    acls: Callable[[], Acls]
    super_users: frozenset[str]
    allows_without_acls: bool

    def allows(
        self, requester: Requester, operation: AclOperation, resource: AclResource, name: str
    ) -> bool:
        if requester.principal in self.super_users:
            return True
        has_acls = is_allowed = False
        for acl in self.acls().of(resource, name):
            has_acls = True
            if _is_for(acl, requester) and _covers(acl, operation):
                if acl.permission is AclPermission.DENY:
                    return False
                is_allowed = True
        return is_allowed or (self.allows_without_acls and not has_acls)

    def allows_some(
        self, requester: Requester, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Return whether the operation is allowed on a resource of the type, existing or not.

        As Kafka's `authorizeByResourceType`; implied operations do not count.
        """
        if self.allows(requester, operation, resource, _SOME_NAME):
            return True
        asked = (operation, AclOperation.ALL)
        acls = [
            acl
            for acl in self.acls()
            if acl.resource is resource and acl.operation in asked and _is_for(acl, requester)
        ]
        denied = {(acl.pattern, acl.name) for acl in acls if acl.permission is AclPermission.DENY}
        if (AclPattern.LITERAL, WILDCARD) in denied:
            return False
        return any(
            acl.permission is AclPermission.ALLOW and not _is_overruled(acl, denied) for acl in acls
        )


def _is_for(acl: Acl, requester: Requester) -> bool:
    return acl.principal in (requester.principal, EVERY_USER) and acl.host in (
        requester.host,
        WILDCARD,
    )


def _covers(acl: Acl, operation: AclOperation) -> bool:
    if acl.operation in (AclOperation.ALL, operation):
        return True
    return acl.permission is AclPermission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())


def _is_overruled(acl: Acl, denied: set[tuple[AclPattern, str]]) -> bool:
    """Return whether everything that an ACL allows is denied by one other ACL."""
    if acl.pattern is AclPattern.LITERAL:
        if acl.name == WILDCARD:
            return False
        if (AclPattern.LITERAL, acl.name) in denied:
            return True
    prefixes = (acl.name[:length] for length in range(1, len(acl.name) + 1))
    return any((AclPattern.PREFIXED, prefix) in denied for prefix in prefixes)
