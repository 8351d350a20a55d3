"""Changes of the stored ACLs."""

from __future__ import annotations

from collections.abc import Sequence

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Acls,
)
from purgatory_broker.metadata.metadata_store import MetadataStore
from purgatory_broker.metadata.topics import ControllerError

#: The most ACLs of a cluster: each is kept for ever. Kafka has no such limit.
MAX_ACLS = 10_000


class AclChanges:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def create(self, acls: Sequence[Acl]) -> list[ControllerError | None]:
        """Store ACLs, those that are valid; return for each why it is refused, or None."""
        refusals = [_refusal(acl) for acl in acls]
        valid = [acl for acl, refusal in zip(acls, refusals, strict=True) if refusal is None]
        changed = Acls([*self._store.acls, *valid])
        if len(changed) > MAX_ACLS:
            raise ControllerError(ErrorCode.POLICY_VIOLATION, f"There are {MAX_ACLS} ACLs")
        if len(changed) > len(self._store.acls):
            self._store.replace("acls", changed)
        return refusals

    def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Delete ACLs, and return those that each filter has matched; one may match none."""
        before = self._store.acls
        matched = [list(filter(wanted.matches, before)) for wanted in filters]
        deleted = {acl for acls in matched for acl in acls}
        if deleted:
            self._store.replace("acls", Acls(acl for acl in before if acl not in deleted))
        return matched


def _refusal(acl: Acl) -> ControllerError | None:
    error = None
    if acl.resource is AclResource.CLUSTER and acl.name != CLUSTER_NAME:
        error = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not acl.name:
        error = "Invalid empty resource name"
    elif acl.resource is AclResource.UNKNOWN:
        error = "Invalid resourceType UNKNOWN"
    elif acl.pattern is AclPattern.UNKNOWN:
        error = "Invalid patternType UNKNOWN"
    elif acl.operation is AclOperation.UNKNOWN:
        error = "Invalid operation UNKNOWN"
    elif acl.permission is AclPermission.UNKNOWN:
        error = "Invalid permissionType UNKNOWN"
    elif ":" not in acl.principal:
        error = f"Could not parse principal from `{acl.principal}`, which has no colon"
    return None if error is None else ControllerError(ErrorCode.INVALID_REQUEST, error)
