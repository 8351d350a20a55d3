"""Members of groups, and groups with members in them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from tests.broker.parity.raw import RawClient
from tests.broker.parity.scene import Scene

_SESSION_MS = 10_000
LONG_MS = 10_000
LATEST = 9
_STATE = {"Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead"}


def protocols(*names: str, data: bytes = b"data") -> list[dict[str, Any]]:
    """Each with a consumer's subscription to one topic, as Kafka reads it to know which groups to keep offsets for."""
    topic = b"subscribed"
    metadata = struct.pack(">hih", 0, 1, len(topic)) + topic + struct.pack(">i", len(data)) + data
    return [{"name": each, "metadata": metadata} for each in names]


def join_fields(group: str, member: str = "", **changed: Any) -> dict[str, Any]:
    """The fields of a JoinGroup request."""
    return {
        "group_id": group,
        "session_timeout_ms": _SESSION_MS,
        "rebalance_timeout_ms": LONG_MS,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": protocols("range"),
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

    def start_join(self, version: int = LATEST, **changed: Any) -> None:
        """Send JoinGroup."""
        self.client.start(
            "JoinGroup",
            version,
            **join_fields(self.group, self.id, group_instance_id=self.instance, **changed),
        )

    def joined(self) -> Any:
        """What JoinGroup answers."""
        answer = self.client.read()
        self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self, version: int = LATEST, **changed: Any) -> Any:
        """JoinGroup, to its answer."""
        self.start_join(version, **changed)
        return self.joined()

    def start_sync(self, *assigned: Member, version: int = 5, **changed: Any) -> None:
        """Send SyncGroup; the leader's has an assignment for each of these."""
        assignments = [
            {"member_id": each.id, "assignment": b"for " + each.id.encode()} for each in assigned
        ]
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        fields |= {
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": assignments,
        }
        self.client.start("SyncGroup", version, **fields | changed)

    def sync(self, *assigned: Member, **changed: Any) -> Any:
        """SyncGroup, to its answer."""
        self.start_sync(*assigned, **changed)
        return self.client.read()

    def heartbeat(self, version: int = 4, **changed: Any) -> Any:
        """Heartbeat."""
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        return self.client.call("Heartbeat", version, **fields | changed)

    def told_to_rejoin(self) -> dict[str, Any] | None:
        """The error that a heartbeat is answered with, or None."""
        code = self.heartbeat().error_code
        return {"error_code": code} if code else None

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
        member.id = member.client.call(
            "JoinGroup", LATEST, **join_fields(group, **changed)
        ).member_id
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
    scene.until(leader.told_to_rejoin)
    leader.join(**changed)
    second.joined()
    second.start_sync()
    assert leader.sync(leader, second).error_code == 0
    assert second.client.read().error_code == 0
    return leader, second


def state_of(scene: Scene, group: str) -> str:
    answer = scene.coordinator(group).call(
        "DescribeGroups", 5, groups=[group], include_authorized_operations=False
    )
    state = answer.groups[0].group_state
    assert state in _STATE, answer
    return str(state)
