"""The next assignment of a member on its way to the target assignment."""

from __future__ import annotations

from collections.abc import Callable

from purgatory_broker.groups.modern.partitions import NO_PARTITIONS, Assignment, TopicIdPartition
from purgatory_broker.groups.modern.record_values import CurrentAssignment, MemberState


def next_assignment(
    current: CurrentAssignment,
    target_epoch: int,
    target: Assignment,
    owned: Assignment | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> CurrentAssignment:
    """Return a member's assignment after a heartbeat.

    A member gives up partitions before it gets others, and gets those that nobody has any more:

    | state | the member | leaves the state when |
    |---|---|---|
    | UNREVOKED_PARTITIONS | has to give up partitions | it owns none of them any more |
    | UNRELEASED_PARTITIONS | is at the target's epoch | others have given up its partitions |
    | STABLE | has its target assignment | there is another target assignment |

    Args:
        current: Its assignment before.
        target_epoch: The epoch of the target assignment.
        target: The partitions that it is to have.
        owned: The partitions that it says to own; None if it says nothing.
        is_free: Returns whether no member has a partition, or is to give it up.

    Source: Kafka's CurrentAssignmentBuilder.
    """
    epoch = current.epoch
    if current.state is MemberState.STABLE:
        if epoch == target_epoch:
            return current
    elif current.state is MemberState.UNREVOKED_PARTITIONS:
        if owned is None or owned & current.pending_revocation:
            return current
        # One more than before, not the target's: there may be more to give up for that.
        epoch += 1
    kept = current.assigned & target
    revoked = current.assigned - kept
    if revoked and (owned is None or owned & revoked):
        return CurrentAssignment(
            epoch,
            current.epoch,
            MemberState.UNREVOKED_PARTITIONS,
            kept,
            revoked,
        )
    missing = target - kept
    free = frozenset(filter(is_free, missing))
    return CurrentAssignment(
        target_epoch,
        current.epoch,
        MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS,
        kept | free,
        NO_PARTITIONS,
    )
