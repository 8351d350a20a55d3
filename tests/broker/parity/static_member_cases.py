"""Members with an instance id."""

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
    protocols,
)
from tests.broker.parity.scene import Scene


@case
def static_member_joins_without_asking_for_an_id(scene: Scene) -> Any:
    group = scene.name("group")
    member = newcomer(scene, group, instance="one")
    return {"joined": member.join(), "synced": member.sync(member), "heartbeat": member.heartbeat()}


@case
def static_leader_is_replaced(scene: Scene) -> Any:
    group = scene.name("group")
    old = only_member(scene, group, instance="one")
    seen: dict[str, Any] = {}
    for version in (9, 8, 5):
        new = newcomer(scene, group, instance="one")
        seen[f"joined, version {version}"] = scene.timed(LONG_MS, new.join, version)
        seen[f"synced, version {version}"] = new.sync(new)
        seen[f"old one, version {version}"] = old.heartbeat()
        old = new
    return seen


@case
def static_members_are_fenced(scene: Scene) -> Any:
    group = scene.name("group")
    old = only_member(scene, group, instance="one")
    new = newcomer(scene, group, instance="one")
    new.join()
    return {
        "heartbeat": old.heartbeat(),
        "sync": old.sync(old),
        "join": old.client.call(
            "JoinGroup", LATEST, **join_fields(group, old.id, group_instance_id="one")
        ),
        "leave": old.leave(),
        "commit": _commit(old, scene.topic()),
        "unknown instance": new.heartbeat(group_instance_id="two"),
        "new one": new.heartbeat(),
        "new one without its instance": new.heartbeat(group_instance_id=None),
    }


@case
def static_follower_is_replaced(scene: Scene) -> Any:
    """The others hear of it only if another protocol is chosen.

    What the new one subscribes to does not count.
    """
    group = scene.name("group")
    both, other = protocols("range", "roundrobin"), protocols("roundrobin")
    leader = only_member(scene, group, protocols=both)
    follower = newcomer(scene, group, instance="one")
    follower.start_join(protocols=both)
    scene.until(leader.told_to_rejoin)
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
        new = newcomer(scene, group, instance="one")
        seen[name] = [
            scene.timed(LONG_MS, new.join, protocols=wanted),
            new.sync(),
            leader.heartbeat(),
        ]
    new = newcomer(scene, group, instance="one")
    new.start_join(protocols=other)
    seen["another protocol"] = scene.until(leader.told_to_rejoin)
    return seen | {
        "leader": leader.join(protocols=both).protocol_name,
        "follower": new.joined().protocol_name,
    }


@case
def static_member_leaves_by_its_instance(scene: Scene) -> Any:
    group = scene.name("group")
    member = only_member(scene, group, instance="one")
    return {
        "left": member.client.call(
            "LeaveGroup", 4, group_id=group, members=[{"member_id": "", "group_instance_id": "one"}]
        ),
        "after": member.heartbeat(),
    }


@case
def static_member_that_waits_in_a_join_is_replaced(scene: Scene) -> Any:
    group = scene.name("group")
    leader = only_member(scene, group)
    old = newcomer(scene, group, instance="one")
    old.start_join()
    scene.until(leader.told_to_rejoin)
    new = newcomer(scene, group, instance="one")
    new.start_join()
    seen: dict[str, Any] = {"old": scene.timed(LONG_MS, old.joined), "leader": leader.join()}
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
