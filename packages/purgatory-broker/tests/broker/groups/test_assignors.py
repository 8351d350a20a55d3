"""Who is to have which partitions, by the coordinator's assignors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker.groups.consumer.assignors import (
    ASSIGNORS,
    AssignedMember,
    assign_range,
    assign_uniform,
)
from purgatory_broker.groups.modern.partitions import Assignment, TopicIdPartition

A, B = UUID(int=1), UUID(int=2)


def partitions(topic: UUID, count: int) -> Assignment:
    return frozenset(TopicIdPartition(topic, index) for index in range(count))


@st.composite
def groups(draw: st.DrawFn) -> list[AssignedMember]:
    """Draw members with subscriptions and what they had before, of which no two had the same."""
    topics = {UUID(int=number): draw(st.integers(1, 6)) for number in range(1, 4)}
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))
    free = sorted(partition for topic in topics for partition in partitions(topic, topics[topic]))
    members = []
    for name in names:
        subscribed = draw(st.sets(st.sampled_from(sorted(topics)), max_size=3))
        had = draw(st.sets(st.sampled_from(free))) if free else set()
        free = [partition for partition in free if partition not in had]
        instance = draw(st.sampled_from([None, f"i{name}"]))
        everything = frozenset().union(*(partitions(each, topics[each]) for each in subscribed))
        members.append(AssignedMember(name, instance, everything, frozenset(had)))
    return members


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@given(members=groups())
def test_each_subscribed_partition_goes_to_one_subscriber(
    assign: Callable[[list[AssignedMember]], dict[str, Assignment]], members: list[AssignedMember]
) -> None:
    assigned = assign(members)
    assert set(assigned) == {member.member_id for member in members}
    for member in members:
        assert assigned[member.member_id] <= member.subscribed
    given_out = [partition for own in assigned.values() for partition in own]
    assert sorted(given_out) == sorted(set().union(*(each.subscribed for each in members)))


@given(groups(), st.integers(1, 6))
def test_uniform_is_balanced_and_moves_no_more_than_it_must(
    members: list[AssignedMember], count: int
) -> None:
    equal = [
        AssignedMember(each.member_id, None, partitions(A, count), each.previous)
        for each in members
    ]
    assigned = assign_uniform(equal)
    sizes = [len(own) for own in assigned.values()]
    assert max(sizes) - min(sizes) <= 1
    again = [
        AssignedMember(each.member_id, None, each.subscribed, assigned[each.member_id])
        for each in equal
    ]
    assert assign_uniform(again) == assigned
    least = count // len(members)
    for member in equal:
        had = member.previous & member.subscribed
        assert len(assigned[member.member_id] & had) >= min(len(had), least)


def one_at_a_time(members: list[AssignedMember]) -> dict[str, Assignment]:
    """Return what the uniform assignor has to, by asking all subscribers of each partition."""
    owned: dict[str, set[TopicIdPartition]] = {}
    for member in members:
        taken = set().union(*owned.values())
        owned[member.member_id] = set((member.previous & member.subscribed) - taken)
    subscribers = {
        partition: [each.member_id for each in members if partition in each.subscribed]
        for member in members
        for partition in member.subscribed
    }
    order = sorted(subscribers, key=lambda each: (len(subscribers[each]), each))

    def move(partition: TopicIdPartition, least: int) -> bool:
        other = min(subscribers[partition], key=lambda each: len(owned[each]))
        former = next((each for each in owned if partition in owned[each]), None)
        if former is not None:
            if len(owned[former]) <= len(owned[other]) + least:
                return False
            owned[former].remove(partition)
        owned[other].add(partition)
        return True

    for partition in order:
        if not any(partition in own for own in owned.values()):
            move(partition, 0)
    while sum(move(partition, 1) for partition in order):
        pass
    return {member_id: frozenset(own) for member_id, own in owned.items()}


@given(groups())
def test_uniform_moves_nothing_that_makes_members_more_equal_later(
    members: list[AssignedMember],
) -> None:
    assigned = assign_uniform(members)
    by_id = {member.member_id: member for member in members}
    for member_id, own in assigned.items():
        for partition in own:
            for other, others in assigned.items():
                if partition in by_id[other].subscribed:
                    assert len(own) <= len(others) + 1, (member_id, partition, other)
    if len({member.subscribed for member in members}) > 1:
        assert assigned == one_at_a_time(members)


def test_uniform_does_not_ask_all_subscribers_for_each_partition() -> None:
    """Otherwise an assignment for many members stops the event loop for long."""
    count = 50
    members = [
        AssignedMember(f"m{number}", None, partitions(A, count) | partitions(B, number % 2))
        for number in range(count)
    ]
    calls = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        assign_uniform(members)
    finally:
        sys.setprofile(None)
    assert calls < count * count / 2


def test_uniform_gives_the_extra_partition_to_one_that_has_it() -> None:
    own = {"a": partitions(A, 1), "b": partitions(A, 3) - partitions(A, 1)}
    members = [AssignedMember(name, None, partitions(A, 3), own[name]) for name in "ab"]
    assert assign_uniform(members) == own


def test_range_gives_equal_numbers_of_topics_to_one_member() -> None:
    subscribed = partitions(A, 3) | partitions(B, 3)
    members = [AssignedMember(name, None, subscribed) for name in "ba"]
    assigned = assign_range(members)
    assert assigned["a"] == partitions(A, 2) | partitions(B, 2)
    assert assigned["b"] == subscribed - assigned["a"]


def test_range_begins_with_static_members_by_instance_id() -> None:
    members = [
        AssignedMember("a", None, partitions(A, 3)),
        AssignedMember("z", "i1", partitions(A, 3)),
        AssignedMember("y", "i2", partitions(A, 3)),
    ]
    assigned = assign_range(members)
    first = {name: {each.partition for each in own} for name, own in assigned.items()}
    assert first == {"z": {0}, "y": {1}, "a": {2}}
