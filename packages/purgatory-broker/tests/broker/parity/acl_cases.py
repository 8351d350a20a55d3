"""ACLs, where no authorizer is configured."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness

_TOPIC, _LITERAL, _READ, _ALLOW = 2, 3, 3, 3
_FILTER = {
    "resource_type_filter": _TOPIC,
    "resource_name_filter": "orders",
    "pattern_type_filter": _LITERAL,
    "principal_filter": "User:alice",
    "host_filter": "*",
    "operation": _READ,
    "permission_type": _ALLOW,
}
_ACL = {
    "resource_type": _TOPIC,
    "resource_name": "orders",
    "resource_pattern_type": _LITERAL,
    "principal": "User:alice",
    "host": "*",
    "operation": _READ,
    "permission_type": _ALLOW,
}


@case
def acls_are_described(harness: CaseHarness) -> Any:
    return {
        version: harness.node_0.call("DescribeAcls", version, **_FILTER) for version in (1, 2, 3)
    }


@case
def acls_are_created(harness: CaseHarness) -> Any:
    other = _ACL | {"principal": "no such form", "resource_name": ""}
    answers: dict[Any, Any] = {
        version: harness.node_0.call("CreateAcls", version, creations=[_ACL, other])
        for version in (1, 2, 3)
    }
    answers["none"] = harness.node_0.call("CreateAcls", 3, creations=[])
    return answers


@case
def acls_are_deleted(harness: CaseHarness) -> Any:
    answers: dict[Any, Any] = {
        version: harness.node_0.call("DeleteAcls", version, filters=[_FILTER, _FILTER])
        for version in (1, 2, 3)
    }
    answers["none"] = harness.node_0.call("DeleteAcls", 3, filters=[])
    return answers
