"""JoinGroup, and its rebalances."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.members import (
    LATEST,
    LONG_MS,
    Member,
    join_fields,
    newcomer,
    only_member,
    pair,
    protocols,
    state_of,
)

_SHORT_MS = 1_500


@case
def join_without_a_member_id(harness: CaseHarness) -> Any:
    group = harness.name("group")
    client = harness.coordinator(group)
    return {
        version: client.call("JoinGroup", version, **join_fields(group))
        for version in (4, 5, 6, 7, 8, 9)
    }


@case
def join_without_a_member_id_in_old_versions(harness: CaseHarness) -> Any:
    seen = {}
    for version in range(4):
        group = harness.name(f"group{version}")
        seen[version] = harness.coordinator(group).call("JoinGroup", version, **join_fields(group))
    return seen


@case
def join_and_sync_alone_at_each_version(harness: CaseHarness) -> Any:
    seen = {}
    for version in range(4, 10):
        member = newcomer(harness, harness.name(f"group{version}"))
        joined = member.join(version)
        seen[version] = {
            "joined": joined,
            "synced": member.sync(member, version=version - 4),
            "heartbeat": member.heartbeat(min(version - 4, 4)),
        }
    return seen


@case
def join_with_an_unknown_member_id(harness: CaseHarness) -> Any:
    group, other = harness.name("group"), harness.name("other")
    member = only_member(harness, other)
    requests = {
        "no such group": (group, "nobody"),
        "no such member": (other, "nobody"),
        "member of another group": (group, member.id),
    }
    return {
        name: harness.coordinator(joined).call(
            "JoinGroup", LATEST, **join_fields(joined, member_id)
        )
        for name, (joined, member_id) in requests.items()
    }


@case
def join_with_invalid_groups_and_timeouts(harness: CaseHarness) -> Any:
    group = harness.name("group")
    client = harness.coordinator(group)
    return {
        "empty group": client.call("JoinGroup", LATEST, **join_fields("")),
        "session too short": client.call(
            "JoinGroup", LATEST, **join_fields(group, session_timeout_ms=999)
        ),
        "session negative": client.call(
            "JoinGroup", LATEST, **join_fields(group, session_timeout_ms=-1)
        ),
        "session too long": client.call(
            "JoinGroup", LATEST, **join_fields(group, session_timeout_ms=1_800_001)
        ),
        "shortest": client.call(
            "JoinGroup", LATEST, **join_fields(group, session_timeout_ms=1_000)
        ),
        "longest": client.call(
            "JoinGroup", LATEST, **join_fields(group, session_timeout_ms=1_800_000)
        ),
    }


@case
def join_of_a_new_group_with_invalid_protocols(harness: CaseHarness) -> Any:
    invalid: dict[str, dict[str, Any]] = {
        "no protocols": {"protocols": []},
        "no type": {"protocol_type": ""},
        "another type": {"protocol_type": "connect"},
    }
    seen = {}
    for number, (name, changed) in enumerate(invalid.items()):
        group = harness.name(f"group{number}")
        client = harness.coordinator(group)
        seen[name] = {
            version: client.call("JoinGroup", version, **join_fields(group, **changed))
            for version in (3, 9)
        }
    return seen


@case
def join_with_inconsistent_protocols(harness: CaseHarness) -> Any:
    group = harness.name("group")
    only_member(harness, group)
    invalid: dict[str, dict[str, Any]] = {
        "other protocol": {"protocols": protocols("roundrobin")},
        "other type": {"protocol_type": "connect"},
        "no protocols": {"protocols": []},
    }
    return {name: newcomer(harness, group).join(**changed) for name, changed in invalid.items()}


@case
def join_at_a_node_that_is_not_the_coordinator(harness: CaseHarness) -> Any:
    group = harness.name("group")
    member = only_member(harness, group)
    address = next(each for each in harness.addresses() if each != member.client.address)
    stranger = Member(harness.connect(address), group, member.id, member.generation)
    return {"join": stranger.client.call("JoinGroup", LATEST, **join_fields(group, member.id))} | {
        "sync": stranger.sync(),
        "heartbeat": stranger.heartbeat(),
        "leave": stranger.leave(),
        "describe": stranger.client.call(
            "DescribeGroups", 5, groups=[group], include_authorized_operations=False
        ),
        "delete": stranger.client.call("DeleteGroups", 2, groups_names=[group]),
    }


@case
def protocol_is_chosen_by_votes(harness: CaseHarness) -> Any:
    """Let each member vote for the first of its protocols that all members have."""
    group = harness.name("group")
    wanted: list[dict[str, Any]] = [
        {"protocols": protocols(*names)} for names in (("a", "b", "c"), ("c", "b"), ("d", "c", "b"))
    ]
    leader = newcomer(harness, group, **wanted[0])
    leader.join(**wanted[0])
    second, third = newcomer(harness, group, **wanted[1]), newcomer(harness, group, **wanted[2])
    second.start_join(**wanted[1])
    harness.until(leader.heartbeat_error)
    leader.start_join(**wanted[0])
    third.start_join(**wanted[2])
    return [each.joined().protocol_name for each in (leader, second, third)]


@case
def rebalance_ends_without_missing_members(harness: CaseHarness) -> Any:
    group = harness.name("group")
    first = only_member(harness, group, rebalance_timeout_ms=_SHORT_MS)
    second = newcomer(harness, group)
    second.start_join(rebalance_timeout_ms=_SHORT_MS)
    seen: dict[str, Any] = {"joined": harness.timed(_SHORT_MS, second.joined)}
    return seen | {
        "the first": first.heartbeat(),
        "the first joins again": first.client.call(
            "JoinGroup", LATEST, **join_fields(group, first.id)
        ),
    }


@case
def rebalance_waits_for_pending_members(harness: CaseHarness) -> Any:
    """Let a member with an assigned id stay away until its session times out."""
    group = harness.name("group")
    leader = only_member(harness, group)
    newcomer(harness, group, session_timeout_ms=_SHORT_MS)
    leader.start_join()
    return harness.timed(_SHORT_MS, leader.joined)


@case
def first_rebalance_does_not_wait_for_pending_members(harness: CaseHarness) -> Any:
    """Join a new group, which waits for the initial delay only; here that is 0."""
    group = harness.name("group")
    newcomer(harness, group)
    return harness.timed(LONG_MS, newcomer(harness, group).join)


@case
def session_expires_without_heartbeats(harness: CaseHarness) -> Any:
    group = harness.name("group")
    member = only_member(harness, group, session_timeout_ms=_SHORT_MS)
    seen: dict[str, Any] = {
        "empty": harness.timed(
            _SHORT_MS, harness.until, lambda: state_of(harness, group) == "Empty"
        )
    }
    return seen | {"heartbeat": member.heartbeat(), "sync": member.sync(member)}


@case
def expired_session_rebalances_the_group(harness: CaseHarness) -> Any:
    group = harness.name("group")
    short = only_member(harness, group, session_timeout_ms=_SHORT_MS)
    second = newcomer(harness, group)
    second.start_join(session_timeout_ms=LONG_MS)
    seen: dict[str, Any] = {"joined": harness.timed(_SHORT_MS, second.joined)}
    return seen | {"the first": short.heartbeat()}


@case
def rejoin_of_a_stable_group(harness: CaseHarness) -> Any:
    group = harness.name("group")
    leader, second = pair(harness, group)
    seen: dict[str, Any] = {
        "follower, nothing changed": harness.timed(LONG_MS, second.join),
        "heartbeat": leader.heartbeat(),
    }
    second.start_join(protocols=protocols("range", data=b"changed"))
    seen["follower, changed"] = harness.until(leader.heartbeat_error)
    seen["leader"] = leader.join()
    seen["follower"] = second.joined()
    second.start_sync()
    seen["synced"] = [leader.sync(leader, second), second.client.read()]
    leader.start_join()
    seen["leader, nothing changed"] = harness.until(second.heartbeat_error)
    second.start_join()
    return seen | {"leader again": leader.joined(), "follower again": second.joined()}


@case
def rejoin_before_the_sync(harness: CaseHarness) -> Any:
    """Join a second time before the assignment; unchanged, the response is the same."""
    leader = newcomer(harness, harness.name("group"))
    first = leader.join()
    again = harness.timed(LONG_MS, leader.join)
    changed = harness.timed(LONG_MS, leader.join, protocols=protocols("range", data=b"changed"))
    return {"first": first, "again": again, "changed": changed}
