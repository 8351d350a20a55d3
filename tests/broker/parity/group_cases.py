"""Groups: who leads them, their members, and what becomes of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.raw import RawClient
from tests.broker.parity.scene import Scene

_SESSION_MS = 10_000
_SHORT_MS = 1_500
_LONG_MS = 10_000
_LATEST = 9
_STATE = {"Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead"}


def _protocols(*names: str, data: bytes = b"data") -> list[dict[str, Any]]:
    """Each with a consumer's subscription to one topic, as Kafka reads it to know which groups to keep offsets for."""
    topic = b"subscribed"
    metadata = struct.pack(">hih", 0, 1, len(topic)) + topic + struct.pack(">i", len(data)) + data
    return [{"name": each, "metadata": metadata} for each in names]


def join_fields(group: str, member: str = "", **changed: Any) -> dict[str, Any]:
    """The fields of a JoinGroup request."""
    return {
        "group_id": group,
        "session_timeout_ms": _SESSION_MS,
        "rebalance_timeout_ms": _LONG_MS,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": _protocols("range"),
        "reason": None,
    } | changed


@dataclass
class Member:
    """A member of a group, on a connection of its own."""

    client: RawClient
    group: str
    id: str
    generation: int = -1
    instance: str | None = None

    def start_join(self, version: int = _LATEST, **changed: Any) -> None:
        """Send JoinGroup."""
        self.client.start("JoinGroup", version, **join_fields(self.group, self.id, group_instance_id=self.instance, **changed))

    def joined(self) -> Any:
        """What JoinGroup answers."""
        answer = self.client.read()
        self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self, version: int = _LATEST, **changed: Any) -> Any:
        """JoinGroup, to its answer."""
        self.start_join(version, **changed)
        return self.joined()

    def start_sync(self, *assigned: Member, version: int = 5, **changed: Any) -> None:
        """Send SyncGroup; the leader's has an assignment for each of these."""
        assignments = [{"member_id": each.id, "assignment": b"for " + each.id.encode()} for each in assigned]
        fields = {"group_id": self.group, "generation_id": self.generation, "member_id": self.id, "group_instance_id": self.instance}
        fields |= {"protocol_type": "consumer", "protocol_name": "range", "assignments": assignments}
        self.client.start("SyncGroup", version, **fields | changed)

    def sync(self, *assigned: Member, **changed: Any) -> Any:
        """SyncGroup, to its answer."""
        self.start_sync(*assigned, **changed)
        return self.client.read()

    def heartbeat(self, version: int = 4, **changed: Any) -> Any:
        """Heartbeat."""
        fields = {"group_id": self.group, "generation_id": self.generation, "member_id": self.id, "group_instance_id": self.instance}
        return self.client.call("Heartbeat", version, **fields | changed)

    def of(self, scene: Scene, group: str) -> Member:
        """The same one, as if it were of another group, at that one's coordinator."""
        return Member(scene.coordinator(group), group, self.id, self.generation, self.instance)

    def leave(self) -> Any:
        """LeaveGroup."""
        identity = {"member_id": self.id, "group_instance_id": self.instance, "reason": None}
        return self.client.call("LeaveGroup", 5, group_id=self.group, members=[identity])


def newcomer(scene: Scene, group: str, *, instance: str | None = None, **changed: Any) -> Member:
    """One who is about to join, with an id unless there is an instance id."""
    member = Member(scene.coordinator(group), group, "", instance=instance)
    if instance is None:
        member.id = member.client.call("JoinGroup", _LATEST, **join_fields(group, **changed)).member_id
    return member


def only_member(scene: Scene, group: str, *, instance: str | None = None, **changed: Any) -> Member:
    """The leader and only member of a stable group."""
    member = newcomer(scene, group, instance=instance)
    answer = member.join(**changed)
    assert answer.error_code == 0, answer
    answer = member.sync(member)
    assert answer.error_code == 0, answer
    return member


def pair(scene: Scene, group: str, **changed: Any) -> tuple[Member, Member]:
    """The leader and another member of a stable group."""
    leader = only_member(scene, group, **changed)
    second = newcomer(scene, group)
    second.start_join(**changed)
    scene.until(lambda: leader.heartbeat().error_code)
    leader.join(**changed)
    second.joined()
    second.start_sync()
    assert leader.sync(leader, second).error_code == 0
    assert second.client.read().error_code == 0
    return leader, second


def _state(scene: Scene, group: str) -> str:
    answer = scene.coordinator(group).call("DescribeGroups", 5, groups=[group], include_authorized_operations=False)
    state = answer.groups[0].group_state
    assert state in _STATE, answer
    return str(state)


@case
def find_coordinator_at_each_version(scene: Scene) -> Any:
    group = scene.name("group")
    scene.coordinator(group)
    old = {version: scene.any.call("FindCoordinator", version, key=group, key_type=0) for version in range(4)}
    return old | {version: scene.any.call("FindCoordinator", version, coordinator_keys=[group], key_type=0) for version in range(4, 7)}


@case
def find_coordinator_of_several_groups(scene: Scene) -> Any:
    scene.coordinator(scene.name("one"))
    keys = [scene.name("one"), scene.name("two")]
    answer = scene.any.call("FindCoordinator", 4, coordinator_keys=[*keys, keys[0]], key_type=0)
    return {"answer": answer, "none": scene.any.call("FindCoordinator", 4, coordinator_keys=[], key_type=0)}


@case
def find_coordinator_of_odd_keys(scene: Scene) -> Any:
    scene.coordinator(scene.name("one"))
    asked = {"empty group": ("", 0), "unknown type": ("key", 7), "negative type": ("key", -1)}
    seen: dict[str, Any] = {}
    for name, (key, kind) in asked.items():
        seen[name] = scene.again(scene.any).call("FindCoordinator", 3, key=key, key_type=kind)
        seen[f"{name}, version 4"] = scene.again(scene.any).call("FindCoordinator", 4, coordinator_keys=[key], key_type=kind)
    return seen


@case
def find_coordinator_of_a_transaction(scene: Scene) -> Any:
    def found() -> Any:
        answer = scene.any.call("FindCoordinator", 3, key=scene.name("transaction"), key_type=1)
        return answer if answer.error_code not in (14, 15) else None

    return scene.until(found)


@case
def join_without_a_member_id(scene: Scene) -> Any:
    group = scene.name("group")
    client = scene.coordinator(group)
    return {version: client.call("JoinGroup", version, **join_fields(group)) for version in (4, 5, 6, 7, 8, 9)}


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
        seen[version] = {"joined": joined, "synced": member.sync(member, version=version - 4), "heartbeat": member.heartbeat(min(version - 4, 4))}
    return seen


@case
def join_with_an_unknown_member_id(scene: Scene) -> Any:
    group, other = scene.name("group"), scene.name("other")
    member = only_member(scene, other)
    asked = {"no such group": (group, "nobody"), "no such member": (other, "nobody"), "member of another group": (group, member.id)}
    return {name: scene.coordinator(where).call("JoinGroup", _LATEST, **join_fields(where, who)) for name, (where, who) in asked.items()}


@case
def join_with_odd_groups_and_timeouts(scene: Scene) -> Any:
    group = scene.name("group")
    client = scene.coordinator(group)
    return {
        "empty group": client.call("JoinGroup", _LATEST, **join_fields("")),
        "session too short": client.call("JoinGroup", _LATEST, **join_fields(group, session_timeout_ms=999)),
        "session negative": client.call("JoinGroup", _LATEST, **join_fields(group, session_timeout_ms=-1)),
        "session too long": client.call("JoinGroup", _LATEST, **join_fields(group, session_timeout_ms=1_800_001)),
        "shortest": client.call("JoinGroup", _LATEST, **join_fields(group, session_timeout_ms=1_000)),
        "longest": client.call("JoinGroup", _LATEST, **join_fields(group, session_timeout_ms=1_800_000)),
    }


@case
def join_of_a_new_group_with_odd_protocols(scene: Scene) -> Any:
    odd = {"no protocols": {"protocols": []}, "no type": {"protocol_type": ""}, "another type": {"protocol_type": "connect"}}
    seen = {}
    for number, (name, changed) in enumerate(odd.items()):
        group = scene.name(f"group{number}")
        client = scene.coordinator(group)
        seen[name] = {version: client.call("JoinGroup", version, **join_fields(group, **changed)) for version in (3, 9)}
    return seen


@case
def join_with_protocols_unlike_the_members(scene: Scene) -> Any:
    group = scene.name("group")
    only_member(scene, group)
    odd = {
        "other protocol": {"protocols": _protocols("roundrobin")},
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
    return {"join": stranger.client.call("JoinGroup", _LATEST, **join_fields(group, member.id))} | {
        "sync": stranger.sync(),
        "heartbeat": stranger.heartbeat(),
        "leave": stranger.leave(),
        "describe": stranger.client.call("DescribeGroups", 5, groups=[group], include_authorized_operations=False),
        "delete": stranger.client.call("DeleteGroups", 2, groups_names=[group]),
    }


@case
def protocol_is_chosen_by_votes(scene: Scene) -> Any:
    """Each member votes for the first of its protocols that all have. Nobody is answered before those whose ids were given out join."""
    group = scene.name("group")
    wanted = [{"protocols": _protocols(*names)} for names in (("a", "b", "c"), ("c", "b"), ("d", "c", "b"))]
    leader = newcomer(scene, group, **wanted[0])
    leader.join(**wanted[0])
    second, third = newcomer(scene, group, **wanted[1]), newcomer(scene, group, **wanted[2])
    second.start_join(**wanted[1])
    scene.until(lambda: leader.heartbeat().error_code)
    leader.start_join(**wanted[0])
    third.start_join(**wanted[2])
    return [each.joined().protocol_name for each in (leader, second, third)]


@case
def two_members_join_and_one_leaves(scene: Scene) -> Any:
    group = scene.name("group")
    leader = only_member(scene, group)
    second = newcomer(scene, group)
    second.start_join(protocols=_protocols("range", data=b"of the second"))
    seen: dict[str, Any] = {"told to rejoin": scene.until(lambda: {"error_code": leader.heartbeat().error_code} if leader.heartbeat().error_code else None)}
    leader.start_join()
    answer, other = leader.joined(), second.joined()
    seen |= {"leader": answer, "second": other}
    seen["heartbeat before sync"] = leader.heartbeat()
    second.start_sync()
    seen["leader synced"] = leader.sync(leader, second)
    seen["second synced"] = second.client.read()
    seen["heartbeat"] = second.heartbeat()
    seen["left"] = second.leave()
    seen["second's heartbeat"] = second.heartbeat()
    seen["leader's heartbeat"] = leader.heartbeat()
    seen["alone again"] = leader.join()
    seen["alone synced"] = leader.sync(leader)
    seen["leader left"] = leader.leave()
    return seen | {"state": _state(scene, group)}


@case
def leader_may_assign_nothing(scene: Scene) -> Any:
    leader = newcomer(scene, scene.name("group"))
    leader.join()
    return {"synced": leader.sync(), "again": leader.sync()}


@case
def sync_again_answers_the_assignment(scene: Scene) -> Any:
    leader = only_member(scene, scene.name("group"))
    return {"again": leader.sync(leader), "with another assignment": leader.sync(assignments=[{"member_id": leader.id, "assignment": b"new"}])}


@case
def sync_errors(scene: Scene) -> Any:
    group = scene.name("group")
    leader = only_member(scene, group)
    return {
        "unknown group": leader.of(scene, scene.name("none")).sync(),
        "empty group": leader.sync(group_id=""),
        "unknown member": leader.sync(member_id="nobody"),
        "generation too low": leader.sync(generation_id=leader.generation - 1),
        "generation too high": leader.sync(generation_id=leader.generation + 1),
        "another protocol": leader.sync(protocol_name="roundrobin"),
        "another protocol type": leader.sync(protocol_type="connect"),
        "no protocol": leader.sync(protocol_name=None, protocol_type=None),
    }


@case
def sync_waits_for_the_leader(scene: Scene) -> Any:
    group = scene.name("group")
    leader, second = pair(scene, group)
    third = newcomer(scene, group)
    third.start_join()
    for each in (leader, second):
        scene.until(lambda: each.heartbeat().error_code)  # noqa: B023
        each.start_join()
    for each in (leader, second, third):
        each.joined()
    second.start_sync()
    third.start_sync()
    state = _state(scene, group)
    leader.start_sync(leader, second)
    return {"state": state, "answers": [each.client.read() for each in (leader, second, third)]}


@case
def sync_that_the_leader_keeps_waiting_is_given_up(scene: Scene) -> Any:
    group = scene.name("group")
    leader = only_member(scene, group, rebalance_timeout_ms=_SHORT_MS)
    second = newcomer(scene, group)
    second.start_join(rebalance_timeout_ms=_SHORT_MS)
    scene.until(lambda: leader.heartbeat().error_code)
    leader.join(rebalance_timeout_ms=_SHORT_MS)
    second.joined()
    second.start_sync()
    seen: dict[str, Any] = {"second": scene.timed(_SHORT_MS, second.client.read), "state": _state(scene, group)}
    seen["leader's heartbeat"] = leader.heartbeat()
    seen["second joins again"] = second.join(rebalance_timeout_ms=_SHORT_MS)
    return seen


@case
def sync_while_the_group_rebalances(scene: Scene) -> Any:
    group = scene.name("group")
    leader = only_member(scene, group)
    second = newcomer(scene, group)
    second.start_join()
    scene.until(lambda: leader.heartbeat().error_code)
    return {"state": _state(scene, group), "sync": leader.sync(leader)}


@case
def sync_that_waits_is_ended_by_a_newcomer(scene: Scene) -> Any:
    group = scene.name("group")
    leader, second = pair(scene, group)
    leader.start_join()
    scene.until(lambda: second.heartbeat().error_code)
    second.start_join()
    leader.joined()
    second.joined()
    second.start_sync()
    third = newcomer(scene, group)
    third.start_join()
    return {"waiting sync": scene.timed(_LONG_MS, second.client.read), "leader's late sync": leader.sync(leader, second)}


@case
def heartbeat_errors(scene: Scene) -> Any:
    group = scene.name("group")
    member = only_member(scene, group)
    return {
        "good": member.heartbeat(),
        "version 0": member.heartbeat(0),
        "unknown group": member.of(scene, scene.name("none")).heartbeat(),
        "empty group": member.heartbeat(group_id=""),
        "unknown member": member.heartbeat(member_id="nobody"),
        "empty member": member.heartbeat(member_id=""),
        "generation too low": member.heartbeat(generation_id=member.generation - 1),
        "generation too high": member.heartbeat(generation_id=member.generation + 1),
    }


@case
def heartbeat_of_a_pending_member(scene: Scene) -> Any:
    pending = newcomer(scene, scene.name("group"))
    return pending.heartbeat(generation_id=0)


@case
def rebalance_ends_without_those_who_do_not_rejoin(scene: Scene) -> Any:
    group = scene.name("group")
    first = only_member(scene, group, rebalance_timeout_ms=_SHORT_MS)
    second = newcomer(scene, group)
    second.start_join(rebalance_timeout_ms=_SHORT_MS)
    seen: dict[str, Any] = {"joined": scene.timed(_SHORT_MS, second.joined)}
    return seen | {"the first": first.heartbeat(), "the first joins again": first.client.call("JoinGroup", _LATEST, **join_fields(group, first.id))}


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
    return scene.timed(_LONG_MS, newcomer(scene, group).join)


@case
def session_ends_without_heartbeats(scene: Scene) -> Any:
    group = scene.name("group")
    member = only_member(scene, group, session_timeout_ms=_SHORT_MS)
    seen: dict[str, Any] = {"empty": scene.timed(_SHORT_MS, lambda: scene.until(lambda: _state(scene, group) == "Empty"))}
    return seen | {"heartbeat": member.heartbeat(), "sync": member.sync(member)}


@case
def session_that_ends_rebalances_the_others(scene: Scene) -> Any:
    group = scene.name("group")
    short = only_member(scene, group, session_timeout_ms=_SHORT_MS)
    second = newcomer(scene, group)
    second.start_join(session_timeout_ms=_LONG_MS)
    seen: dict[str, Any] = {"joined": scene.timed(_SHORT_MS, second.joined)}
    return seen | {"the first": short.heartbeat()}


@case
def rejoin_of_a_stable_group(scene: Scene) -> Any:
    group = scene.name("group")
    leader, second = pair(scene, group)
    seen: dict[str, Any] = {"follower, nothing changed": scene.timed(_LONG_MS, second.join), "heartbeat": leader.heartbeat()}
    second.start_join(protocols=_protocols("range", data=b"changed"))
    seen["follower, changed"] = scene.until(lambda: {"error_code": code} if (code := leader.heartbeat().error_code) else None)
    seen["leader"] = leader.join()
    seen["follower"] = second.joined()
    second.start_sync()
    seen["synced"] = [leader.sync(leader, second), second.client.read()]
    leader.start_join()
    seen["leader, nothing changed"] = scene.until(lambda: {"error_code": code} if (code := second.heartbeat().error_code) else None)
    second.start_join()
    return seen | {"leader again": leader.joined(), "follower again": second.joined()}


@case
def rejoin_before_the_sync(scene: Scene) -> Any:
    """Who joins a second time before the assignment is there, nothing changed, is answered as before."""
    leader = newcomer(scene, scene.name("group"))
    first = leader.join()
    again = scene.timed(_LONG_MS, leader.join)
    changed = scene.timed(_LONG_MS, lambda: leader.join(protocols=_protocols("range", data=b"changed")))
    return {"first": first, "again": again, "changed": changed}


@case
def leave_errors(scene: Scene) -> Any:
    group = scene.name("group")
    member = only_member(scene, group)
    client, elsewhere = member.client, scene.coordinator(scene.name("none"))
    nobody = {"member_id": "nobody", "group_instance_id": None}
    seen = {
        "unknown group": elsewhere.call("LeaveGroup", 3, group_id=scene.name("none"), members=[nobody]),
        "unknown group, version 0": elsewhere.call("LeaveGroup", 0, group_id=scene.name("none"), member_id="nobody"),
        "empty group": client.call("LeaveGroup", 3, group_id="", members=[nobody]),
        "unknown member": client.call("LeaveGroup", 4, group_id=group, members=[nobody]),
        "unknown member, version 2": client.call("LeaveGroup", 2, group_id=group, member_id="nobody"),
        "unknown instance": client.call("LeaveGroup", 5, group_id=group, members=[{"member_id": "", "group_instance_id": "i"}]),
        "no members": client.call("LeaveGroup", 5, group_id=group, members=[]),
    }
    both = [nobody, {"member_id": member.id, "group_instance_id": None}]
    seen["one of two"] = client.call("LeaveGroup", 5, group_id=group, members=both)
    return seen | {"again, version 1": client.call("LeaveGroup", 1, group_id=group, member_id=member.id)}


@case
def leave_of_a_pending_member(scene: Scene) -> Any:
    pending = newcomer(scene, scene.name("group"))
    return {"left": pending.leave(), "joins after all": pending.join()}


@case
def leave_of_one_who_waits_in_a_join(scene: Scene) -> Any:
    group = scene.name("group")
    leader = only_member(scene, group)
    second = newcomer(scene, group)
    second.start_join()
    scene.until(lambda: leader.heartbeat().error_code)
    identity = {"member_id": second.id, "group_instance_id": None, "reason": "enough"}
    left = scene.again(second.client).call("LeaveGroup", 5, group_id=group, members=[identity])
    return {"left": left, "its join": scene.timed(_LONG_MS, second.joined), "leader": leader.join()}


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
        seen[f"joined, version {version}"] = scene.timed(_LONG_MS, lambda: new.join(version))  # noqa: B023
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
        "join": old.client.call("JoinGroup", _LATEST, **join_fields(group, old.id, group_instance_id="one")),
        "leave": old.leave(),
        "commit": _commit(old, scene.topic()),
        "unknown instance": new.heartbeat(group_instance_id="two"),
        "new one": new.heartbeat(),
        "new one without its instance": new.heartbeat(group_instance_id=None),
    }


@case
def static_follower_is_replaced(scene: Scene) -> Any:
    """The others hear of it only if another protocol is chosen; what the new one subscribes to does not count."""
    group = scene.name("group")
    both, other = _protocols("range", "roundrobin"), _protocols("roundrobin")
    leader = only_member(scene, group, protocols=both)
    follower = newcomer(scene, group, instance="one")
    follower.start_join(protocols=both)
    scene.until(lambda: leader.heartbeat().error_code)
    leader.join(protocols=both)
    follower.joined()
    follower.start_sync()
    leader.sync(leader, follower)
    follower.client.read()
    seen: dict[str, Any] = {}
    for name, protocols in {"nothing changed": both, "another subscription": _protocols("range", "roundrobin", data=b"changed")}.items():
        new = newcomer(scene, group, instance="one")
        seen[name] = [scene.timed(_LONG_MS, lambda: new.join(protocols=protocols)), new.sync(), leader.heartbeat()]  # noqa: B023
    new = newcomer(scene, group, instance="one")
    new.start_join(protocols=other)
    seen["another protocol"] = scene.until(lambda: {"error_code": code} if (code := leader.heartbeat().error_code) else None)
    return seen | {"leader": leader.join(protocols=both).protocol_name, "follower": new.joined().protocol_name}


@case
def static_member_leaves_by_its_instance(scene: Scene) -> Any:
    group = scene.name("group")
    member = only_member(scene, group, instance="one")
    return {"left": member.client.call("LeaveGroup", 4, group_id=group, members=[{"member_id": "", "group_instance_id": "one"}]), "after": member.heartbeat()}


@case
def static_member_that_waits_in_a_join_is_replaced(scene: Scene) -> Any:
    group = scene.name("group")
    leader = only_member(scene, group)
    old = newcomer(scene, group, instance="one")
    old.start_join()
    scene.until(lambda: leader.heartbeat().error_code)
    new = newcomer(scene, group, instance="one")
    new.start_join()
    seen: dict[str, Any] = {"old": scene.timed(_LONG_MS, old.joined), "leader": leader.join()}
    return seen | {"new": new.joined()}


def _commit(member: Member, topic: str) -> Any:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    fields = {"group_id": member.group, "generation_id_or_member_epoch": member.generation, "member_id": member.id}
    return member.client.call("OffsetCommit", 8, **fields, group_instance_id=member.instance, topics=[{"name": topic, "partitions": [partition]}])


@case
def describe_groups(scene: Scene) -> Any:
    group = scene.name("group")
    leader = newcomer(scene, group)
    leader.join(protocols=_protocols("range", "roundrobin"))

    def seen(*names: str, version: int = 5) -> Any:
        clients = {name: scene.coordinator(name) for name in names}
        found = [clients[name].call("DescribeGroups", version, groups=[name], include_authorized_operations=False).groups[0] for name in names]
        for each in found:
            for member in each.members:
                assert member.client_host.endswith("127.0.0.1"), member
        return found

    leader.sync(leader)
    return {
        "stable": {version: seen(group, version=version) for version in range(7)},
        "unknown": {version: seen(scene.name("none"), version=version) for version in (0, 5, 6)},
        "no names": leader.client.call("DescribeGroups", 5, groups=[], include_authorized_operations=False),
    }


@case
def list_groups(scene: Scene) -> Any:
    stable, empty = scene.name("stable"), scene.name("empty")
    only_member(scene, stable)
    only_member(scene, empty).leave()

    def listed(version: int = 4, **fields: Any) -> Any:
        found = []
        for address in scene.addresses():
            answer = scene.connect(address).call("ListGroups", version, **fields)
            found += [each for each in answer.groups if each.group_id in (stable, empty)]
            if answer.error_code:
                return answer
        return sorted(found, key=lambda each: each.group_id)

    filters = {"stable": ["Stable"], "empty": ["Empty"], "both": ["Stable", "Empty"], "in small letters": ["stable"], "unknown": ["Nonsense"]}
    seen: dict[str, Any] = {version: listed(version) for version in range(6)}
    seen |= {f"states: {name}": listed(states_filter=states) for name, states in filters.items()}
    types = {"classic": ["classic"], "in capitals": ["CLASSIC"], "consumer": ["consumer"], "unknown": ["nonsense"]}
    return seen | {f"types: {name}": listed(5, types_filter=kinds) for name, kinds in types.items()}


@case
def delete_groups(scene: Scene) -> Any:
    stable, empty = scene.name("stable"), scene.name("empty")
    member = only_member(scene, stable)
    only_member(scene, empty).leave()

    def delete(group: str, version: int = 2) -> Any:
        return scene.coordinator(group).call("DeleteGroups", version, groups_names=[group]).results

    seen: dict[str, Any] = {"unknown": delete(scene.name("none")), "not empty": delete(stable), "empty": delete(empty), "empty again": delete(empty)}
    member.leave()
    return seen | {"after all left": delete(stable, 0)}


@case
def delete_a_group_with_pending_members_only(scene: Scene) -> Any:
    pending = newcomer(scene, scene.name("group"))
    deleted = pending.client.call("DeleteGroups", 2, groups_names=[pending.group])
    return {"deleted": deleted, "joins after all": pending.join()}


@case
def group_array_of_negative_length_closes_the_connection(scene: Scene) -> Any:
    """This array may not be null."""
    scene.any.write_frame(b"\0\x0f\0\0\0\0\0\7\0\0" + b"\xff\xff\xff\xff")
    return "closed" if scene.any.is_closed(within=5) else "open"
