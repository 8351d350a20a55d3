"""The assignors of the coordinator: who is to have which partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
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
    everything: set[TopicIdPartition] = set().union(*(member.subscribed for member in members))
    topics = [list(each) for _, each in groupby(sorted(everything), attrgetter("topic_id"))]
    subscribers: dict[TopicIdPartition, list[str]] = {topic[0]: [] for topic in topics}
    firsts = set(subscribers)
    for member in members:
        for first in member.subscribed & firsts:
            subscribers[first].append(member.member_id)
    # Topics that few can have come first.
    topics.sort(key=lambda topic: len(subscribers[topic[0]]))
    owner_of: dict[TopicIdPartition, str] = {
        partition: member_id for member_id, own in owned.items() for partition in own
    }
    for topic in topics:
        loads = _Loads(subscribers[topic[0]], owned)
        for partition in topic:
            if partition not in taken:
                owner_of[partition] = loads.give(partition)
    is_balanced = False
    while not is_balanced:
        is_balanced = True
        for topic in topics:
            loads = _Loads(subscribers[topic[0]], owned)
            for partition in topic:
                # Each move makes the numbers more equal, so that the moves end.
                former = owner_of[partition]
                if len(owned[former]) > loads.least + 1:
                    loads.take(partition, former)
                    owner_of[partition] = loads.give(partition)
                    is_balanced = False


class _Loads:
    """The subscribers of a topic by the number of their partitions, the least first."""

    def __init__(self, subscribers: list[str], owned: dict[str, set[TopicIdPartition]]) -> None:
        self._owned = owned
        self._places = {member_id: place for place, member_id in enumerate(subscribers)}
        #: Entries with another number than their member's are out of date.
        self._heap = [(len(owned[each]), place, each) for place, each in enumerate(subscribers)]
        heapify(self._heap)

    @property
    def least(self) -> int:
        while self._heap[0][0] != len(self._owned[self._heap[0][2]]):
            heappop(self._heap)
        return self._heap[0][0]

    def give(self, partition: TopicIdPartition) -> str:
        """Give a partition to a member with the least, and return its id."""
        assert self.least >= 0
        member_id = self._heap[0][2]
        self._owned[member_id].add(partition)
        self._note(member_id)
        return member_id

    def take(self, partition: TopicIdPartition, member_id: str) -> None:
        self._owned[member_id].remove(partition)
        self._note(member_id)

    def _note(self, member_id: str) -> None:
        heappush(self._heap, (len(self._owned[member_id]), self._places[member_id], member_id))


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
