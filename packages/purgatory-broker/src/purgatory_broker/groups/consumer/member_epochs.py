"""Whether a member may read and commit offsets: it has to know its epoch."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup


def validate_commit(
    group: ConsumerGroup, member_id: str, epoch: int, *, knows_epochs: bool = True
) -> None:
    """Check that a client may commit offsets: a member, or any client of an empty group.

    Members of the consumer protocol send versions that know epochs; in others UNSUPPORTED_VERSION.
    """
    if epoch < 0 and group.is_empty:
        return
    member = group.members.get(member_id)
    if member is not None and member.classic is None and not knows_epochs:
        raise GroupError(ErrorCode.UNSUPPORTED_VERSION, group.group_id)
    validate_epoch(group, member_id, epoch)


def validate_epoch(group: ConsumerGroup, member_id: str, epoch: int) -> None:
    """Refuse another epoch with STALE_MEMBER_EPOCH, of a classic member with ILLEGAL_GENERATION."""
    member = group.members.get(member_id)
    if member is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group.group_id)
    if epoch == group.current_of(member_id).epoch:
        return
    is_classic = member.classic is not None
    code = ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
    raise GroupError(code, group.group_id)
