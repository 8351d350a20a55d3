"""The records of topics and the groups of a cluster, as a test looks at them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from purgatory_broker.groups.consumer_protocol import assigned_partitions
from purgatory_broker.groups.coordinator import GroupCoordinator
from purgatory_broker.groups.group import CONSUMER_PROTOCOL_TYPE, Group
from purgatory_broker.groups.group_records import OffsetValue
from purgatory_broker.groups.member import Member
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.modern.share_group import ShareGroup
from purgatory_broker.groups.shards import AnyGroup
from request_purgatory.errors import InvalidArgumentError

#: The most records, and the most bytes of their keys, values and headers, that are returned unless
#: a limit is given.
MAX_RECORDS = 10_000
MAX_BYTES = 16 * 2**20
#: The records that are read before others have their turn on the event loop.
RECORDS_PER_SLICE = 250


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record that consumers can read.

    Attributes:
        partition: the number of its partition.
        offset: its offset in the partition.
        timestamp_ms: milliseconds since 1970.
        key: its key; None if it has none.
        value: its value; None if it has none.
        headers: names and values, in the producer's order.
        producer_id: the id of the idempotent producer; -1 if the producer has none.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int

    @property
    def size_bytes(self) -> int:
        """The bytes of its key, value and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


async def take_records(records: Iterable[TopicRecord], limit: int | None) -> list[TopicRecord]:
    """Return the first records, and give way to others on the event loop after each slice."""
    if limit is not None and limit < 1:
        raise InvalidArgumentError("limit", "at least 1", limit)
    taken: list[TopicRecord] = []
    size_bytes = 0
    for record in islice(records, limit):
        taken.append(record)
        size_bytes += record.size_bytes
        if limit is None and (len(taken) > MAX_RECORDS or size_bytes > MAX_BYTES):
            raise InvalidArgumentError(
                "limit",
                f"given for more than {MAX_RECORDS} records, or {MAX_BYTES} bytes of them",
                limit,
            )
        if len(taken) % RECORDS_PER_SLICE == 0:
            await asyncio.sleep(0)
    return taken


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
        generation: the number of its generation, or its epoch.
        protocol_type: "consumer" for consumers; None if it has had no member.
        protocol: what its members have agreed on, for consumers the assignor; None if nothing, and
            for groups whose coordinator makes the assignments.
        coordinator: the number of its coordinator's node.
        leader_id: the id of the member that makes the assignment; None if no member does.
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


def snapshot(coordinator: GroupCoordinator, group: AnyGroup) -> GroupSnapshot:
    fetched = coordinator.offsets.fetch(group.group_id, None).topics
    return GroupSnapshot(
        group_id=group.group_id,
        state=group.state_name,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol if isinstance(group, Group) else None,
        coordinator=coordinator.node_id,
        leader_id=group.leader_id if isinstance(group, Group) else None,
        members=tuple(_members(coordinator, group)),
        offsets={
            topic: {
                partition: offset.offset
                for partition, offset in offsets
                if isinstance(offset, OffsetValue)
            }
            for topic, offsets in fetched
        },
    )


def _members(coordinator: GroupCoordinator, group: AnyGroup) -> Iterator[MemberSnapshot]:
    if isinstance(group, Group):
        for member in group.members.values():
            yield _member(group, member)
    elif isinstance(group, ConsumerGroup):
        for member_id, value in group.members.items():
            yield MemberSnapshot(
                member_id,
                value.instance_id,
                value.client_id,
                value.client_host,
                coordinator.by_topic_name(group.current_of(member_id).assigned),
            )
    elif isinstance(group, ShareGroup):
        for member_id, worker in group.members.items():
            yield MemberSnapshot(
                member_id,
                None,
                worker.client_id,
                worker.client_host,
                coordinator.by_topic_name(group.current_of(member_id).assigned),
            )


def _member(group: Group, member: Member) -> MemberSnapshot:
    assignment: dict[str, list[int]] = {}
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        with suppress(ValueError):  # The leader's client may send any bytes.
            assignment = assigned_partitions(member.assignment)
    return MemberSnapshot(
        member.member_id, member.instance_id, member.client_id, member.client_host, assignment
    )
