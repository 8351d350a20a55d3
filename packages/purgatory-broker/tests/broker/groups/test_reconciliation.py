"""A member gives up partitions before it gets others, and gets those that nobody has."""

from __future__ import annotations

from uuid import UUID

from purgatory_broker.groups.consumer.reconciliation import next_assignment
from purgatory_broker.groups.modern.partitions import NO_PARTITIONS, Assignment, TopicIdPartition
from purgatory_broker.groups.modern.record_values import CurrentAssignment, MemberState

STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


def parts(*numbers: int) -> Assignment:
    return frozenset(TopicIdPartition(UUID(int=1), number) for number in numbers)


def reconciled(
    current: CurrentAssignment,
    target: Assignment,
    *,
    epoch: int = 5,
    owned: Assignment | None = None,
    taken: Assignment = NO_PARTITIONS,
) -> CurrentAssignment:
    return next_assignment(current, epoch, target, owned, lambda each: each not in taken)


def test_stable_member_at_the_epoch_is_left_alone() -> None:
    current = CurrentAssignment(5, 4, STABLE, parts(1))
    assert reconciled(current, parts(2)) is current


def test_new_member_gets_what_is_free_and_waits_for_the_rest() -> None:
    after = reconciled(CurrentAssignment(), parts(1, 2, 3), owned=parts(), taken=parts(3))
    assert after == CurrentAssignment(5, 0, UNRELEASED, parts(1, 2))
    later = reconciled(after, parts(1, 2, 3))
    assert later == CurrentAssignment(5, 5, STABLE, parts(1, 2, 3))


def test_member_keeps_its_epoch_until_it_has_given_up_partitions() -> None:
    current = CurrentAssignment(4, 3, STABLE, parts(1, 2))
    waiting = reconciled(current, parts(2, 3), owned=parts(1, 2))
    assert waiting == CurrentAssignment(4, 4, UNREVOKED, parts(2), parts(1))
    assert reconciled(waiting, parts(2, 3), owned=None) is waiting
    assert reconciled(waiting, parts(2, 3), owned=parts(1, 2)) is waiting
    after = reconciled(waiting, parts(2, 3), owned=parts(2))
    assert after == CurrentAssignment(5, 4, STABLE, parts(2, 3))


def test_member_that_owns_nothing_of_it_need_not_give_it_up() -> None:
    current = CurrentAssignment(4, 3, STABLE, parts(1))
    assert reconciled(current, parts(2), owned=parts()).assigned == parts(2)
    assert reconciled(current, parts(2), owned=None).state is UNREVOKED


def test_member_comes_to_the_next_epoch_if_a_later_target_takes_more() -> None:
    waiting = CurrentAssignment(3, 2, UNREVOKED, parts(1, 2), parts(3))
    after = reconciled(waiting, parts(1), owned=parts(1, 2))
    assert after == CurrentAssignment(4, 3, UNREVOKED, parts(1), parts(2))


def test_what_others_have_to_give_up_is_not_free() -> None:
    current = CurrentAssignment(5, 4, UNRELEASED, parts(1))
    after = reconciled(current, parts(1, 2), taken=parts(2))
    assert after.assigned == parts(1)
    assert after.state is UNRELEASED
