"""The delayed operations of the group coordinator's purgatories.

A group refers to the operation of each kind that is in force. Every other operation of the group
is stale: its rebalance has ended, a later heartbeat has replaced it, or the group is gone. The code
that replaces an operation notifies its watch key, and the stale operation completes without effect.

An operation knows its group and calls back when it ends; it does not know the `Rebalancer`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.group import Group
from request_purgatory.aio import Purgatory
from request_purgatory.purgatory.operation import DelayedOperation


class DelayedJoin(DelayedOperation):
    """Waits for JoinGroup from all known members, watching the group's id."""

    __slots__ = ("_complete_join", "_group")

    def __init__(
        self, group: Group, timeout_ms: int, complete_join: Callable[[Group], object]
    ) -> None:
        super().__init__(timeout_ms)
        self._group = group
        self._complete_join = complete_join

    @property
    def is_stale(self) -> bool:
        return self._group.delayed_join is not self

    def try_complete(self) -> bool:
        return (self.is_stale or self._group.has_all_members_joined) and self.force_complete()

    def on_complete(self) -> None:
        if not self.is_stale:
            self._complete_join(self._group)


class InitialDelayedJoin(DelayedJoin):
    """Waits for the initial rebalance delay of a group that was empty. Watch key: the group's id.

    The members of a new group start at about the same time; without the delay, each of them would
    start another rebalance.
    """

    __slots__ = ()

    def try_complete(self) -> bool:
        """Complete only if stale: the number of members to come is unknown."""
        return self.is_stale and self.force_complete()


class DelayedSync(DelayedOperation):
    """Waits for SyncGroup from all members of a generation, watching the group's id."""

    __slots__ = ("_expire_pending_sync", "_group")

    def __init__(
        self, group: Group, timeout_ms: int, expire_pending_sync: Callable[[Group], object]
    ) -> None:
        super().__init__(timeout_ms)
        self._group = group
        self._expire_pending_sync = expire_pending_sync

    @property
    def is_stale(self) -> bool:
        return self._group.delayed_sync is not self

    def try_complete(self) -> bool:
        return (self.is_stale or not self._group.pending_sync_members) and self.force_complete()

    def on_complete(self) -> None:
        """Do nothing: SyncGroup is answered when the leader's assignment is stored."""

    def on_expiration(self) -> None:
        if not self.is_stale:
            self._expire_pending_sync(self._group)


class DelayedHeartbeat(DelayedOperation):
    """Waits for a member's next request, watching the group's id and the member's."""

    __slots__ = ("_expire_heartbeat", "_group", "_member_id", "deadline_ms")

    def __init__(
        self,
        group: Group,
        member_id: str,
        timeout_ms: int,
        deadline_ms: int,
        expire_heartbeat: Callable[[Group, str], object],
    ) -> None:
        """Wait for a member for `timeout_ms`, until `deadline_ms` since the epoch."""
        super().__init__(timeout_ms)
        self._group = group
        self._member_id = member_id
        self.deadline_ms = deadline_ms
        self._expire_heartbeat = expire_heartbeat

    @property
    def is_stale(self) -> bool:
        """True if another operation waits for the next heartbeat, or the member has left."""
        return self._group.heartbeats.get(self._member_id) is not self

    def try_complete(self) -> bool:
        return self.is_stale and self.force_complete()

    def on_complete(self) -> None:
        """Do nothing: no request waits for a heartbeat."""

    def on_expiration(self) -> None:
        if not self.is_stale:
            self._expire_heartbeat(self._group, self._member_id)


@dataclass(slots=True, eq=False)
class Heartbeats:
    """Expects heartbeats of members: each in time, or the member has failed."""

    purgatory: Purgatory
    actions: ActionQueue
    now_ms: Callable[[], int]
    on_expired: Callable[[Group, str], None]

    def abandon(self) -> None:
        """Expect no more heartbeats; drop what is called when one has not come."""
        self.on_expired = lambda _group, _member_id: None

    def reschedule(self, group: Group, member_id: str, timeout_ms: int) -> None:
        operation = DelayedHeartbeat(
            group, member_id, timeout_ms, self.now_ms() + timeout_ms, self.on_expired
        )
        self.cancel(group, member_id)
        group.heartbeats[member_id] = operation
        self.actions.add(
            partial(
                self.purgatory.try_complete_else_watch, operation, [(group.group_id, member_id)]
            )
        )

    def time_advanced(self, group: Group) -> None:
        """Expect heartbeats by the same time of day as before, since the time was advanced."""
        now_ms = self.now_ms()
        for operation in list(group.heartbeats.values()):
            if isinstance(operation, DelayedHeartbeat):
                remaining_ms = max(0, operation.deadline_ms - now_ms)
                self.purgatory.renew(operation, remaining_ms / 1_000)

    def cancel(self, group: Group, member_id: str) -> None:
        if group.heartbeats.pop(member_id, None) is not None:
            self.actions.add(partial(self.purgatory.notify, (group.group_id, member_id)))
