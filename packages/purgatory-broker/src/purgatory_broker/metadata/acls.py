"""ACLs: who may do what with which topics, groups and other resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

#: The name that matches all resources, the host that matches all hosts, and the principal that
#: matches all users.
WILDCARD = "*"
EVERY_USER = "User:*"
#: The only name of the cluster.
CLUSTER_NAME = "kafka-cluster"


class AclResource(IntEnum):
    """The types of resources; ANY is for filters, UNKNOWN what a client means by another code."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(IntEnum):
    """How the name of an ACL matches those of resources; ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operations; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """What an ACL does; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    resource: AclResource
    name: str
    pattern: AclPattern
    #: Such as "User:alice".
    principal: str
    #: An IP address.
    host: str
    operation: AclOperation
    permission: AclPermission


class AclFilter(NamedTuple):
    """Selects ACLs. None, like ANY, selects all."""

    resource: AclResource
    name: str | None
    pattern: AclPattern
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: AclPermission

    @property
    def is_unknown(self) -> bool:
        return (
            self.resource is AclResource.UNKNOWN
            or self.pattern is AclPattern.UNKNOWN
            or self.operation is AclOperation.UNKNOWN
            or self.permission is AclPermission.UNKNOWN
        )

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource in (AclResource.ANY, acl.resource)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (AclPattern.ANY, AclPattern.MATCH, acl.pattern):
            return False
        if self.name in (None, acl.name):
            return True
        if self.pattern is not AclPattern.MATCH or self.name is None:
            return False
        # MATCH selects what decides over the resource of the name.
        if acl.pattern is AclPattern.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name == WILDCARD


class Acls:
    """ACLs in the order in which they were stored; never changed, but replaced as a whole."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._acls = dict.fromkeys(acls)
        self._literal: dict[tuple[AclResource, str], list[Acl]] = {}
        #: By the prefix; the lengths are those of all prefixes of a type.
        self._prefixed: dict[tuple[AclResource, str], list[Acl]] = {}
        self._lengths: dict[AclResource, list[int]] = {}
        for acl in self._acls:
            is_literal = acl.pattern is AclPattern.LITERAL
            index = self._literal if is_literal else self._prefixed
            index.setdefault((acl.resource, acl.name), []).append(acl)
        for resource in AclResource:
            lengths = {len(prefix) for kind, prefix in self._prefixed if kind is resource}
            self._lengths[resource] = sorted(lengths)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    def __len__(self) -> int:
        return len(self._acls)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._acls

    def of(self, resource: AclResource, name: str) -> Iterator[Acl]:
        """Yield the ACLs that match a resource, of all principals, hosts and operations."""
        yield from self._literal.get((resource, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource, WILDCARD), ())
        for length in self._lengths[resource]:
            if length > len(name):
                break
            yield from self._prefixed.get((resource, name[:length]), ())
