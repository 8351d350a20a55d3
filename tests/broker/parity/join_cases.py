"""JoinGroup, and the rebalances that it brings about."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case import case
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
from tests.broker.parity.scene import Scene

_SHORT_MS = 1_500


@case
def join_without_a_member_id(scene: Scene) -> Any:
    group = scene.name("group")
    client = scene.coordinator(group)
    return {
        version: client.call("JoinGroup", version, **join_fields(group))
        for version in (4, 5, 6, 7, 8, 9)
    }


@case
def join_without_a_member_id_in_old_versions(scene: Scene) -> Any:
    seen = {}
    for version in range(4):
        group = scene.name(f"group{version}")
        seen[version] = scene.coordinator(group).call("JoinGroup", version, **join_fields(group))
    return seen


@case
def join_and_sync_alone_at_each_version(scene: Scene) -> Any:
    seen = {}
    for version in range(4, 10):
        member = newcomer(scene, scene.name(f"group{version}"))
        joined = member.join(version)
        seen[version] = {
            "joined": joined,
            "synced": member.sync(member, version=version - 4),
            "heartbeat": member.heartbeat(min(version - 4, 4)),
        }
    return seen


@case
def join_with_an_unknown_member_id(scene: Scene) -> Any:
    group, other = scene.name("group"), scene.name("other")
    member = only_member(scene, other)
    asked = {
        "no such group": (group, "nobody"),
        "no such member": (other, "nobody"),
        "member of another group": (group, member.id),
    }
    return {
        name: scene.coordinator(where).call("JoinGroup", LATEST, **join_fields(where, who))
        for name, (where, who) in asked.items()
    }


@case
def join_with_odd_groups_and_timeouts(scene: Scene) -> Any:
    group = scene.name("group")
    client = scene.coordinator(group)
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
def join_of_a_new_group_with_odd_protocols(scene: Scene) -> Any:
    odd: dict[str, dict[str, Any]] = {
        "no protocols": {"protocols": []},
        "no type": {"protocol_type": ""},
        "another type": {"protocol_type": "connect"},
    }
    seen = {}
    for number, (name, changed) in enumerate(odd.items()):
        group = scene.name(f"group{number}")
        client = scene.coordinator(group)
        seen[name] = {
            version: client.call("JoinGroup", version, **join_fields(group, **changed))
            for version in (3, 9)
        }
    return seen


@case
def join_with_protocols_unlike_the_members(scene: Scene) -> Any:
    group = scene.name("group")
    only_member(scene, group)
    odd: dict[str, dict[str, Any]] = {
        "other protocol": {"protocols": protocols("roundrobin")},
        "other type": {"protocol_type": "connect"},
        "no protocols": {"protocols": []},
    }
    return {name: newcomer(scene, group).join(**changed) for name, changed in odd.items()}


@case
def join_at_a_node_that_is_not_the_coordinator(scene: Scene) -> Any:
    group = scene.name("group")
    member = only_member(scene, group)
    address = next(each for each in scene.addresses() if each != member.client.address)
    stranger = Member(scene.connect(address), group, member.id, member.generation)
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
def protocol_is_chosen_by_votes(scene: Scene) -> Any:
    """Each member votes for the first of its protocols that all have.

    None is answered before the last that has an id.
    """
    group = scene.name("group")
    wanted: list[dict[str, Any]] = [
        {"protocols": protocols(*names)} for names in (("a", "b", "c"), ("c", "b"), ("d", "c", "b"))
    ]
    leader = newcomer(scene, group, **wanted[0])
    leader.join(**wanted[0])
    second, third = newcomer(scene, group, **wanted[1]), newcomer(scene, group, **wanted[2])
    second.start_join(**wanted[1])
    scene.until(leader.told_to_rejoin)
    leader.start_join(**wanted[0])
    third.start_join(**wanted[2])
    return [each.joined().protocol_name for each in (leader, second, third)]


@case
def rebalance_ends_without_those_who_do_not_rejoin(scene: Scene) -> Any:
    group = scene.name("group")
    first = only_member(scene, group, rebalance_timeout_ms=_SHORT_MS)
    second = newcomer(scene, group)
    second.start_join(rebalance_timeout_ms=_SHORT_MS)
    seen: dict[str, Any] = {"joined": scene.timed(_SHORT_MS, second.joined)}
    return seen | {
        "the first": first.heartbeat(),
        "the first joins again": first.client.call(
            "JoinGroup", LATEST, **join_fields(group, first.id)
        ),
    }


@case
def rebalance_waits_for_pending_members(scene: Scene) -> Any:
    """One that was given an id and stays away holds the others up, until its session ends."""
    group = scene.name("group")
    leader = only_member(scene, group)
    newcomer(scene, group, session_timeout_ms=_SHORT_MS)
    leader.start_join()
    return scene.timed(_SHORT_MS, leader.joined)


@case
def first_rebalance_does_not_wait_for_pending_members(scene: Scene) -> Any:
    """It waits for the initial delay alone, which is nothing here."""
    group = scene.name("group")
    newcomer(scene, group)
    return scene.timed(LONG_MS, newcomer(scene, group).join)


@case
def session_ends_without_heartbeats(scene: Scene) -> Any:
    group = scene.name("group")
    member = only_member(scene, group, session_timeout_ms=_SHORT_MS)
    seen: dict[str, Any] = {
        "empty": scene.timed(_SHORT_MS, scene.until, lambda: state_of(scene, group) == "Empty")
    }
    return seen | {"heartbeat": member.heartbeat(), "sync": member.sync(member)}


@case
def session_that_ends_rebalances_the_others(scene: Scene) -> Any:
    group = scene.name("group")
    short = only_member(scene, group, session_timeout_ms=_SHORT_MS)
    second = newcomer(scene, group)
    second.start_join(session_timeout_ms=LONG_MS)
    seen: dict[str, Any] = {"joined": scene.timed(_SHORT_MS, second.joined)}
    return seen | {"the first": short.heartbeat()}


@case
def rejoin_of_a_stable_group(scene: Scene) -> Any:
    group = scene.name("group")
    leader, second = pair(scene, group)
    seen: dict[str, Any] = {
        "follower, nothing changed": scene.timed(LONG_MS, second.join),
        "heartbeat": leader.heartbeat(),
    }
    second.start_join(protocols=protocols("range", data=b"changed"))
    seen["follower, changed"] = scene.until(leader.told_to_rejoin)
    seen["leader"] = leader.join()
    seen["follower"] = second.joined()
    second.start_sync()
    seen["synced"] = [leader.sync(leader, second), second.client.read()]
    leader.start_join()
    seen["leader, nothing changed"] = scene.until(second.told_to_rejoin)
    second.start_join()
    return seen | {"leader again": leader.joined(), "follower again": second.joined()}


@case
def rejoin_before_the_sync(scene: Scene) -> Any:
    """Who joins a second time before the assignment is there, nothing changed, is answered as before."""
    leader = newcomer(scene, scene.name("group"))
    first = leader.join()
    again = scene.timed(LONG_MS, leader.join)
    changed = scene.timed(LONG_MS, leader.join, protocols=protocols("range", data=b"changed"))
    return {"first": first, "again": again, "changed": changed}
