"""Coordinators, and the administration of groups."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.members import newcomer, only_member, protocols


@case
def find_coordinator_at_each_version(harness: CaseHarness) -> Any:
    group = harness.name("group")
    harness.coordinator(group)
    old = {
        version: harness.node_0.call("FindCoordinator", version, key=group, key_type=0)
        for version in range(4)
    }
    return old | {
        version: harness.node_0.call(
            "FindCoordinator", version, coordinator_keys=[group], key_type=0
        )
        for version in range(4, 7)
    }


@case
def find_coordinator_of_several_groups(harness: CaseHarness) -> Any:
    harness.coordinator(harness.name("one"))
    keys = [harness.name("one"), harness.name("two")]
    answer = harness.node_0.call(
        "FindCoordinator", 4, coordinator_keys=[*keys, keys[0]], key_type=0
    )
    return {
        "answer": answer,
        "none": harness.node_0.call("FindCoordinator", 4, coordinator_keys=[], key_type=0),
    }


@case
def find_coordinator_of_unusual_keys(harness: CaseHarness) -> Any:
    harness.coordinator(harness.name("one"))
    keys = {"empty group": ("", 0), "unknown type": ("key", 7), "negative type": ("key", -1)}
    seen: dict[Any, Any] = {}
    for name, (key, kind) in keys.items():
        seen[name] = harness.connect_like(harness.node_0).call(
            "FindCoordinator", 3, key=key, key_type=kind
        )
        seen[f"{name}, version 4"] = harness.connect_like(harness.node_0).call(
            "FindCoordinator", 4, coordinator_keys=[key], key_type=kind
        )
    return seen


@case
def find_coordinator_of_a_transaction(harness: CaseHarness) -> Any:
    def found() -> Any:
        answer = harness.node_0.call(
            "FindCoordinator", 3, key=harness.name("transaction"), key_type=1
        )
        return answer if answer.error_code not in (14, 15) else None

    return harness.until(found)


@case
def describe_groups(harness: CaseHarness) -> Any:
    group = harness.name("group")
    leader = newcomer(harness, group)
    leader.join(protocols=protocols("range", "roundrobin"))

    def seen(*names: str, version: int = 5) -> Any:
        clients = {name: harness.coordinator(name) for name in names}
        found = [
            clients[name]
            .call("DescribeGroups", version, groups=[name], include_authorized_operations=False)
            .groups[0]
            for name in names
        ]
        for each in found:
            for member in each.members:
                assert member.client_host.endswith("127.0.0.1"), member
        return found

    leader.sync(leader)
    return {
        "stable": {version: seen(group, version=version) for version in range(7)},
        "unknown": {version: seen(harness.name("none"), version=version) for version in (0, 5, 6)},
        "no names": leader.client.call(
            "DescribeGroups", 5, groups=[], include_authorized_operations=False
        ),
    }


@case
def list_groups(harness: CaseHarness) -> Any:
    stable, empty = harness.name("stable"), harness.name("empty")
    only_member(harness, stable)
    only_member(harness, empty).leave()

    def listed(version: int = 4, **fields: Any) -> Any:
        found = []
        for address in harness.addresses():
            answer = harness.connect(address).call("ListGroups", version, **fields)
            found += [each for each in answer.groups if each.group_id in (stable, empty)]
            if answer.error_code:
                return answer
        return sorted(found, key=lambda each: each.group_id)

    filters = {
        "stable": ["Stable"],
        "empty": ["Empty"],
        "both": ["Stable", "Empty"],
        "in small letters": ["stable"],
        "unknown": ["Nonsense"],
    }
    seen: dict[Any, Any] = {version: listed(version) for version in range(6)}
    seen |= {f"states: {name}": listed(states_filter=states) for name, states in filters.items()}
    types = {
        "classic": ["classic"],
        "in capitals": ["CLASSIC"],
        "consumer": ["consumer"],
        "unknown": ["nonsense"],
    }
    return seen | {f"types: {name}": listed(5, types_filter=kinds) for name, kinds in types.items()}


@case
def delete_groups(harness: CaseHarness) -> Any:
    stable, empty = harness.name("stable"), harness.name("empty")
    member = only_member(harness, stable)
    only_member(harness, empty).leave()

    def delete(group: str, version: int = 2) -> Any:
        return (
            harness.coordinator(group).call("DeleteGroups", version, groups_names=[group]).results
        )

    seen: dict[Any, Any] = {
        "unknown": delete(harness.name("none")),
        "not empty": delete(stable),
        "empty": delete(empty),
        "empty again": delete(empty),
    }
    member.leave()
    return seen | {"after all left": delete(stable, 0)}


@case
def delete_a_group_with_pending_members_only(harness: CaseHarness) -> Any:
    pending = newcomer(harness, harness.name("group"))
    deleted = pending.client.call("DeleteGroups", 2, groups_names=[pending.group])
    return {"deleted": deleted, "joins after all": pending.join()}


@case
def group_array_of_negative_length_closes_the_connection(harness: CaseHarness) -> Any:
    """Send DeleteGroups an array that may not be null."""
    harness.node_0.write_frame(b"\0\x0f\0\0\0\0\0\7\0\0" + b"\xff\xff\xff\xff")
    return "closed" if harness.node_0.is_closed(within=5) else "open"
