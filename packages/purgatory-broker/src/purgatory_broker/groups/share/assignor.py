"""The assignor of share groups: every partition has a member, every member a partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from purgatory_broker.groups.modern.partitions import NO_PARTITIONS, Assignment, TopicIdPartition

NAME = "simple"


def assign(
    subscribed: Mapping[str, Assignment], previous: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    """Assign partitions to members, each of which may have some of the partitions only.

    1. Members keep what they had, unless they had more than their part.
    2. A partition that nobody has gets the member with the fewest partitions.
    3. A member that has none gets the partition with the fewest members.

    So with more partitions than members each partition has one member, and with more members each
    member has one partition. Kafka's SimpleAssignor has the same rules; which member gets which
    partition may differ.

    >>> first, second = (TopicIdPartition(None, number) for number in (0, 1))
    >>> both = frozenset({first, second})
    >>> assigned = assign({"a": both, "b": both, "c": both}, {"a": both})
    >>> [sorted(each.partition for each in assigned[member]) for member in "abc"]
    [[0], [1], [0]]
    """
    loads: Counter[str] = Counter()
    sharing: Counter[TopicIdPartition] = Counter()
    assigned: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in subscribed}

    def give(member_id: str, partition: TopicIdPartition) -> None:
        assigned[member_id].add(partition)
        loads[member_id] += 1
        sharing[partition] += 1

    everything = sorted(frozenset[TopicIdPartition]().union(*subscribed.values()))
    members = sorted(subscribed)
    slots = max(len(members), len(everything))
    is_uniform = len(set(subscribed.values())) == 1
    for number, member_id in enumerate(members):
        kept = sorted(previous.get(member_id, NO_PARTITIONS) & subscribed[member_id])
        for partition in kept:
            is_full = loads[member_id] >= _part(slots, len(members), number)
            has_enough = sharing[partition] >= _part(slots, len(everything), 0)
            if not (is_uniform and (is_full or has_enough)):
                give(member_id, partition)
    for partition in everything:
        if not sharing[partition]:
            candidates = [each for each in members if partition in subscribed[each]]
            give(min(candidates, key=lambda each: loads[each]), partition)
    for member_id in members:
        if not assigned[member_id] and subscribed[member_id]:
            give(member_id, min(sorted(subscribed[member_id]), key=lambda each: sharing[each]))
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _part(total: int, count: int, number: int) -> int:
    """Return the size of a part of a total that is divided as evenly as possible."""
    return total // count + (number < total % count)
