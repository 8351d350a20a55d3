"""The groups of a cluster, as a test looks at them."""

from __future__ import annotations

from dataclasses import dataclass

from purgatory_broker.groups.consumer_protocol import assigned_partitions
from purgatory_broker.groups.coordinator import GroupCoordinator
from purgatory_broker.groups.group import CONSUMER_PROTOCOL_TYPE, Group
from purgatory_broker.groups.member import Member


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """A member of a group.

    Attributes:
        member_id: the id that the coordinator gave it.
        instance_id: the `group.instance.id` of a static member; None for a dynamic one.
        client_id: its client's `client.id`.
        client_host: its client's address.
        assignment: the numbers of its partitions by topic; empty unless it is a consumer.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group with its members and its committed offsets.

    Attributes:
        group_id: its id.
        state: Kafka's name of its state, such as "Stable".
        generation: the number of its generation.
        protocol_type: "consumer" for consumers; None if it has had no member.
        protocol: what its members have agreed on, for consumers the assignor; None if nothing.
        coordinator: the number of its coordinator's node.
        leader_id: the id of the member that makes the assignment; None if it has no member.
        members: its members.
        offsets: its committed offsets by topic and partition.
    """

    group_id: str
    state: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    coordinator: int
    leader_id: str | None
    members: tuple[MemberSnapshot, ...]
    offsets: dict[str, dict[int, int]]


def snapshot(coordinator: GroupCoordinator, group: Group) -> GroupSnapshot:
    fetched = coordinator.fetch_offsets(group.group_id, None).topics
    return GroupSnapshot(
        group_id=group.group_id,
        state=group.state.value,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        coordinator=coordinator.node_id,
        leader_id=group.leader_id,
        members=tuple(_member(group, member) for member in group.members.values()),
        offsets={
            topic: {partition: offset.offset for partition, offset in offsets if offset is not None}
            for topic, offsets in fetched
        },
    )


def _member(group: Group, member: Member) -> MemberSnapshot:
    assignment: dict[str, list[int]] = {}
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        try:
            assignment = assigned_partitions(member.assignment)
        except ValueError:
            pass  # The leader's client may send any bytes.
    return MemberSnapshot(
        member.member_id, member.instance_id, member.client_id, member.client_host, assignment
    )
