"""Static members, which have a group instance id."""

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
    protocols,
)


@case
def static_member_joins_without_asking_for_an_id(harness: CaseHarness) -> Any:
    group = harness.name("group")
    member = newcomer(harness, group, instance="one")
    return {"joined": member.join(), "synced": member.sync(member), "heartbeat": member.heartbeat()}


@case
def static_leader_is_replaced(harness: CaseHarness) -> Any:
    group = harness.name("group")
    old = only_member(harness, group, instance="one")
    seen: dict[str, Any] = {}
    for version in (9, 8, 5):
        new = newcomer(harness, group, instance="one")
        seen[f"joined, version {version}"] = harness.timed(LONG_MS, new.join, version)
        seen[f"synced, version {version}"] = new.sync(new)
        seen[f"old one, version {version}"] = old.heartbeat()
        old = new
    return seen


@case
def static_members_are_fenced(harness: CaseHarness) -> Any:
    group = harness.name("group")
    old = only_member(harness, group, instance="one")
    new = newcomer(harness, group, instance="one")
    new.join()
    return {
        "heartbeat": old.heartbeat(),
        "sync": old.sync(old),
        "join": old.client.call(
            "JoinGroup", LATEST, **join_fields(group, old.id, group_instance_id="one")
        ),
        "leave": old.leave(),
        "commit": _commit(old, harness.topic()),
        "unknown instance": new.heartbeat(group_instance_id="two"),
        "new one": new.heartbeat(),
        "new one without its instance": new.heartbeat(group_instance_id=None),
    }


@case
def static_follower_is_replaced(harness: CaseHarness) -> Any:
    """Replace a follower; the others rejoin only if another protocol is selected."""
    group = harness.name("group")
    both, other = protocols("range", "roundrobin"), protocols("roundrobin")
    leader = only_member(harness, group, protocols=both)
    follower = newcomer(harness, group, instance="one")
    follower.start_join(protocols=both)
    harness.until(leader.heartbeat_error)
    leader.join(protocols=both)
    follower.joined()
    follower.start_sync()
    leader.sync(leader, follower)
    follower.client.read()
    seen: dict[str, Any] = {}
    for name, wanted in {
        "nothing changed": both,
        "another subscription": protocols("range", "roundrobin", data=b"changed"),
    }.items():
        new = newcomer(harness, group, instance="one")
        seen[name] = [
            harness.timed(LONG_MS, new.join, protocols=wanted),
            new.sync(),
            leader.heartbeat(),
        ]
    new = newcomer(harness, group, instance="one")
    new.start_join(protocols=other)
    seen["another protocol"] = harness.until(leader.heartbeat_error)
    return seen | {
        "leader": leader.join(protocols=both).protocol_name,
        "follower": new.joined().protocol_name,
    }


@case
def static_member_leaves_by_its_instance(harness: CaseHarness) -> Any:
    group = harness.name("group")
    member = only_member(harness, group, instance="one")
    return {
        "left": member.client.call(
            "LeaveGroup", 4, group_id=group, members=[{"member_id": "", "group_instance_id": "one"}]
        ),
        "after": member.heartbeat(),
    }


@case
def waiting_static_member_is_replaced(harness: CaseHarness) -> Any:
    group = harness.name("group")
    leader = only_member(harness, group)
    old = newcomer(harness, group, instance="one")
    old.start_join()
    harness.until(leader.heartbeat_error)
    new = newcomer(harness, group, instance="one")
    new.start_join()
    seen: dict[str, Any] = {"old": harness.timed(LONG_MS, old.joined), "leader": leader.join()}
    return seen | {"new": new.joined()}


def _commit(member: Member, topic: str) -> Any:
    partition = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    fields = {
        "group_id": member.group,
        "generation_id_or_member_epoch": member.generation,
        "member_id": member.id,
    }
    return member.client.call(
        "OffsetCommit",
        8,
        **fields,
        group_instance_id=member.instance,
        topics=[{"name": topic, "partitions": [partition]}],
    )
