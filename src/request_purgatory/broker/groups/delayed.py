"""The operations that wait in the coordinator's purgatories.

Each belongs to a group, which knows the one of each kind that is in force. One that is not (a
rebalance was over, a heartbeat came, the group is gone) is void: whoever made it so notifies its
key, whereupon it completes without effect and leaves the purgatory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from request_purgatory.purgatory.operation import DelayedOperation

if TYPE_CHECKING:
    from request_purgatory.broker.groups.group import Group
    from request_purgatory.broker.groups.rebalancer import Rebalancer


class DelayedJoin(DelayedOperation):
    """Waits until all known members have joined, for as long as the rebalance timeout.

    Key: the group's id.
    """

    __slots__ = ("_group", "_rebalancer")

    def __init__(self, rebalancer: Rebalancer, group: Group, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self._rebalancer = rebalancer
        self._group = group

    @property
    def is_void(self) -> bool:
        """True if it is not in force any more."""
        return self._group.delayed_join is not self

    def try_complete(self) -> bool:
        """All have joined."""
        return (self.is_void or self._group.has_all_joined) and self.force_complete()

    def on_complete(self) -> None:
        """All have joined, or those who have not are late: go on with those who have."""
        if not self.is_void:
            self._rebalancer.complete_join(self._group)


class InitialDelayedJoin(DelayedJoin):
    """Waits for the members that come soon after the first one, a little longer while they keep coming. Key: the group's id.

    Members of a new group start at about the same time, and without this each would begin another
    rebalance.
    """

    __slots__ = ("remaining_ms",)

    def __init__(
        self, rebalancer: Rebalancer, group: Group, delay_ms: int, remaining_ms: int
    ) -> None:
        super().__init__(rebalancer, group, delay_ms)
        #: For how much longer than this one's delay it may be extended.
        self.remaining_ms = remaining_ms

    def try_complete(self) -> bool:
        """Nobody knows how many will come."""
        return self.is_void and self.force_complete()

    def on_complete(self) -> None:
        """The time is over, or is extended."""
        if not self.is_void:
            self._rebalancer.initial_delay_over(self._group, self)


class DelayedSync(DelayedOperation):
    """Waits until all members of a generation have sent SyncGroup, for as long as the rebalance timeout. Key: the group's id."""

    __slots__ = ("_group", "_rebalancer")

    def __init__(self, rebalancer: Rebalancer, group: Group, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self._rebalancer = rebalancer
        self._group = group

    @property
    def is_void(self) -> bool:
        """True if it is not in force any more."""
        return self._group.delayed_sync is not self

    def try_complete(self) -> bool:
        """All have sent it."""
        return (self.is_void or not self._group.pending_sync) and self.force_complete()

    def on_complete(self) -> None:
        """Who sends SyncGroup is answered when the leader's assignment is stored, which is no matter of this."""

    def on_expiration(self) -> None:
        """Remove those who have not."""
        if not self.is_void:
            self._rebalancer.sync_expired(self._group)


class DelayedHeartbeat(DelayedOperation):
    """Waits for a sign of a member's life, for as long as its session timeout.

    Key: the group's id and the member's.
    """

    __slots__ = ("_group", "_member_id", "_rebalancer")

    def __init__(self, rebalancer: Rebalancer, group: Group, member_id: str, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self._rebalancer = rebalancer
        self._group = group
        self._member_id = member_id

    @property
    def is_void(self) -> bool:
        """True if it is not in force any more: a sign has come, and another one waits for the next.

        Or the member has gone.
        """
        return self._group.heartbeats.get(self._member_id) is not self

    def try_complete(self) -> bool:
        """A sign has come."""
        return self.is_void and self.force_complete()

    def on_complete(self) -> None:
        """Nobody waits to be told."""

    def on_expiration(self) -> None:
        """The member has failed."""
        if not self.is_void:
            self._rebalancer.heartbeat_expired(self._group, self._member_id)
