"""Members of groups."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import RawClient

_SESSION_MS = 10_000
LONG_MS = 10_000
LATEST = 9
_STATE = {"Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead"}


def protocols(*names: str, data: bytes = b"data") -> list[dict[str, Any]]:
    """Return protocols whose metadata is a consumer's subscription to one topic."""
    topic = b"subscribed"
    metadata = struct.pack(">hih", 0, 1, len(topic)) + topic + struct.pack(">i", len(data)) + data
    return [{"name": each, "metadata": metadata} for each in names]


def join_fields(group: str, member: str = "", **changed: Any) -> dict[str, Any]:
    """Return the fields of a JoinGroup request."""
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
    """A member of a group, on its own connection."""

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
        """Return the response to JoinGroup."""
        answer = self.client.read()
        self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self, version: int = LATEST, **changed: Any) -> Any:
        """Send JoinGroup, and return the response."""
        self.start_join(version, **changed)
        return self.joined()

    def start_sync(self, *assigned: Member, version: int = 5, **changed: Any) -> None:
        """Send SyncGroup, with an assignment for each of `assigned`."""
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
        """Send SyncGroup, and return the response."""
        self.start_sync(*assigned, **changed)
        return self.client.read()

    def heartbeat(self, version: int = 4, **changed: Any) -> Any:
        """Send Heartbeat, and return the response."""
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        return self.client.call("Heartbeat", version, **fields | changed)

    def heartbeat_error(self) -> dict[str, Any] | None:
        """Return the error of a heartbeat, such as REBALANCE_IN_PROGRESS; None if there is none."""
        code = self.heartbeat().error_code
        return {"error_code": code} if code else None

    def with_group(self, harness: CaseHarness, group: str) -> Member:
        """Return this member with another group's name, connected to that group's coordinator."""
        return Member(harness.coordinator(group), group, self.id, self.generation, self.instance)

    def leave(self) -> Any:
        """Send LeaveGroup, and return the response."""
        identity = {"member_id": self.id, "group_instance_id": self.instance, "reason": None}
        return self.client.call("LeaveGroup", 5, group_id=self.group, members=[identity])


def newcomer(
    harness: CaseHarness, group: str, *, instance: str | None = None, **changed: Any
) -> Member:
    """Return a member that has not joined, with an id unless it has an instance id."""
    member = Member(harness.coordinator(group), group, "", instance=instance)
    if instance is None:
        member.id = member.client.call(
            "JoinGroup", LATEST, **join_fields(group, **changed)
        ).member_id
    return member


def only_member(
    harness: CaseHarness, group: str, *, instance: str | None = None, **changed: Any
) -> Member:
    """Return the leader and only member of a stable group."""
    member = newcomer(harness, group, instance=instance)
    answer = member.join(**changed)
    assert answer.error_code == 0, answer
    answer = member.sync(member)
    assert answer.error_code == 0, answer
    return member


def pair(harness: CaseHarness, group: str, **changed: Any) -> tuple[Member, Member]:
    """Return the leader and another member of a stable group."""
    leader = only_member(harness, group, **changed)
    second = newcomer(harness, group)
    second.start_join(**changed)
    harness.until(leader.heartbeat_error)
    leader.join(**changed)
    second.joined()
    second.start_sync()
    assert leader.sync(leader, second).error_code == 0
    assert second.client.read().error_code == 0
    return leader, second


def state_of(harness: CaseHarness, group: str) -> str:
    answer = harness.coordinator(group).call(
        "DescribeGroups", 5, groups=[group], include_authorized_operations=False
    )
    state = answer.groups[0].group_state
    assert state in _STATE, answer
    return str(state)
