"""ACLs that tests store."""

from __future__ import annotations

from purgatory_broker.metadata.acls import (
    EVERY_USER,
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)


def allows_everyone(resource: AclResource, name: str, operation: AclOperation) -> Acl:
    literal, allow = AclPattern.LITERAL, AclPermission.ALLOW
    return Acl(resource, name, literal, EVERY_USER, WILDCARD, operation, allow)
