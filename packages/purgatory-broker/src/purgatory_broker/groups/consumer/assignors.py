"""The assignors of the coordinator: who is to have which partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeAlias

from purgatory_broker.groups.modern.partitions import NO_PARTITIONS, Assignment, TopicIdPartition


@dataclass(frozen=True, slots=True)
class AssignedMember:
    """A member as an assignor sees it."""

    member_id: str
    instance_id: str | None
    #: The partitions of the topics that it is subscribed to.
    subscribed: Assignment
    #: What it is to have by the target assignment before.
    previous: Assignment = NO_PARTITIONS


#: Returns the partitions of each member's id.
Assignor: TypeAlias = Callable[[list[AssignedMember]], dict[str, Assignment]]


def assign_uniform(members: list[AssignedMember]) -> dict[str, Assignment]:
    """Give members equal numbers of partitions, and move as few as possible.

    If all have the same subscriptions, their numbers differ by one at most.
    """
    owned = {member.member_id: set[TopicIdPartition]() for member in members}
    taken: set[TopicIdPartition] = set()
    for member in members:
        owned[member.member_id] = set((member.previous & member.subscribed) - taken)
        taken |= owned[member.member_id]
    if len({member.subscribed for member in members}) <= 1:
        _balance_equal(members, owned)
    else:
        _balance_unequal(members, owned, taken)
    return {member_id: frozenset(partitions) for member_id, partitions in owned.items()}


def _balance_equal(members: list[AssignedMember], owned: dict[str, set[TopicIdPartition]]) -> None:
    partitions = members[0].subscribed if members else NO_PARTITIONS
    least, extra = divmod(len(partitions), len(members) or 1)
    # Those with more than the least keep the extra partitions.
    order = sorted(members, key=lambda member: -len(owned[member.member_id]))
    quotas = {member.member_id: least + (position < extra) for position, member in enumerate(order)}
    for member_id, own in owned.items():
        for partition in sorted(own)[quotas[member_id] :]:
            own.remove(partition)
    free = iter(sorted(partitions.difference(*owned.values())))
    for member_id, own in owned.items():
        for _ in range(quotas[member_id] - len(own)):
            own.add(next(free))


def _balance_unequal(
    members: list[AssignedMember],
    owned: dict[str, set[TopicIdPartition]],
    taken: set[TopicIdPartition],
) -> None:
    subscribers: dict[TopicIdPartition, list[str]] = {}
    for member in members:
        for partition in member.subscribed:
            subscribers.setdefault(partition, []).append(member.member_id)
    # Partitions that few can have come first.
    partitions = sorted(subscribers, key=lambda each: (len(subscribers[each]), each))

    def least(partition: TopicIdPartition) -> str:
        return min(subscribers[partition], key=lambda member_id: len(owned[member_id]))

    owner_of: dict[TopicIdPartition, str] = {
        partition: member_id for member_id, own in owned.items() for partition in own
    }
    for partition in partitions:
        if partition not in taken:
            owner_of[partition] = least(partition)
            owned[owner_of[partition]].add(partition)
    is_balanced = False
    while not is_balanced:
        is_balanced = True
        for partition in partitions:
            # Each move makes the numbers more equal, so that the moves end.
            former, other = owner_of[partition], least(partition)
            if len(owned[former]) > len(owned[other]) + 1:
                owned[former].remove(partition)
                owned[other].add(partition)
                owner_of[partition] = other
                is_balanced = False


def assign_range(members: list[AssignedMember]) -> dict[str, Assignment]:
    """Give each member a range of every topic, so that equal numbers of topics come together.

    Static members come first, in the order of their instance ids, and keep their ranges when they
    return with other member ids.
    """
    order = sorted(
        members,
        key=lambda member: (
            member.instance_id is None,
            member.instance_id or "",
            member.member_id,
        ),
    )
    owned: dict[str, set[TopicIdPartition]] = {member.member_id: set() for member in members}
    by_topic = attrgetter("topic_id")
    everything: set[TopicIdPartition] = set().union(*(member.subscribed for member in members))
    for _, partitions in groupby(sorted(everything), by_topic):
        _divide(list(partitions), order, owned)
    return {member_id: frozenset(partitions) for member_id, partitions in owned.items()}


def _divide(
    partitions: list[TopicIdPartition],
    order: Iterable[AssignedMember],
    owned: Mapping[str, set[TopicIdPartition]],
) -> None:
    subscribers = [member for member in order if partitions[0] in member.subscribed]
    least, extra = divmod(len(partitions), len(subscribers))
    start = 0
    for position, member in enumerate(subscribers):
        end = start + least + (position < extra)
        owned[member.member_id].update(partitions[start:end])
        start = end


ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
