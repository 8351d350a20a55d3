"""The heartbeats that a coordinator expects of members."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.delayed import DelayedHeartbeat
from purgatory_broker.groups.group import Group
from request_purgatory.aio import Purgatory


def _ignore(group: Group, member_id: str) -> None:
    """Do nothing about a member whose heartbeat has not come in time."""


class Heartbeats:
    """Expects heartbeats of members: each in time, or the member has failed."""

    def __init__(
        self,
        purgatory: Purgatory,
        actions: ActionQueue,
        *,
        now_ms: Callable[[], int],
        on_expired: Callable[[Group, str], None],
    ) -> None:
        self._purgatory = purgatory
        self._actions = actions
        self._now_ms = now_ms
        self._on_expired = on_expired

    def abandon(self) -> None:
        """Expect no more heartbeats; drop what is called when one has not come."""
        self._on_expired = _ignore

    def reschedule(self, group: Group, member_id: str, timeout_ms: int) -> None:
        operation = DelayedHeartbeat(
            group, member_id, timeout_ms, self._now_ms() + timeout_ms, self._on_expired
        )
        self.cancel(group, member_id)
        group.heartbeats[member_id] = operation
        self._actions.add(
            partial(
                self._purgatory.try_complete_else_watch, operation, [(group.group_id, member_id)]
            )
        )

    def time_advanced(self, group: Group) -> None:
        """Expect heartbeats by the same time of day as before, since the time was advanced."""
        now_ms = self._now_ms()
        for operation in list(group.heartbeats.values()):
            if isinstance(operation, DelayedHeartbeat):
                remaining_ms = max(0, operation.deadline_ms - now_ms)
                self._purgatory.renew(operation, remaining_ms / 1_000)

    def cancel(self, group: Group, member_id: str) -> None:
        if group.heartbeats.pop(member_id, None) is not None:
            self._actions.add(partial(self._purgatory.notify, (group.group_id, member_id)))
