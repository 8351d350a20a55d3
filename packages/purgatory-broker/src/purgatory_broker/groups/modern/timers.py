"""What waits for the members of the newer kinds of groups, as delayed operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.modern.group import ModernGroup
from request_purgatory.aio import Purgatory
from request_purgatory.purgatory.operation import DelayedOperation


class MemberTimer(DelayedOperation):
    """Waits for a member to do something, watching the group's id, the member's and the kind."""

    __slots__ = ("_expired", "_group", "deadline_ms", "key")

    def __init__(
        self,
        group: ModernGroup,
        key: tuple[str, str],
        timeout_ms: int,
        deadline_ms: int,
        expired: Callable[[ModernGroup, str, str], object],
    ) -> None:
        """Wait for `timeout_ms`, until `deadline_ms` since the epoch."""
        super().__init__(timeout_ms)
        self._group = group
        self.key = key
        self.deadline_ms = deadline_ms
        self._expired = expired

    @property
    def is_stale(self) -> bool:
        """True if another operation has taken the place of this one, or none is needed."""
        return self._group.timers.get(self.key) is not self

    def try_complete(self) -> bool:
        return self.is_stale and self.force_complete()

    def on_complete(self) -> None:
        """Do nothing: no request waits."""

    def on_expiration(self) -> None:
        if not self.is_stale:
            self._expired(self._group, *self.key)


@dataclass(slots=True, eq=False)
class MemberTimers:
    """The waits for members; each kind has a purgatory."""

    purgatories: Mapping[str, Purgatory]
    actions: ActionQueue
    now_ms: Callable[[], int]
    #: Called with the group, the member's id and the kind of a wait that has ended by time.
    on_expired: Callable[[ModernGroup, str, str], object]

    def schedule(self, group: ModernGroup, member_id: str, kind: str, timeout_ms: int) -> None:
        """Wait from now on, instead of since an earlier call."""
        self.cancel(group, member_id, kind)
        key = member_id, kind
        timer = MemberTimer(group, key, timeout_ms, self.now_ms() + timeout_ms, self._expired)
        group.timers[key] = timer
        purgatory, watched = self.purgatories[kind], (group.group_id, member_id, kind)
        self.actions.add(partial(purgatory.try_complete_else_watch, timer, [watched]))

    def schedule_if_absent(
        self, group: ModernGroup, member_id: str, kind: str, timeout_ms: int
    ) -> None:
        if (member_id, kind) not in group.timers:
            self.schedule(group, member_id, kind, timeout_ms)

    def cancel(self, group: ModernGroup, member_id: str, kind: str) -> None:
        if group.timers.pop((member_id, kind), None) is not None:
            watched = group.group_id, member_id, kind
            self.actions.add(partial(self.purgatories[kind].notify, watched))

    def cancel_member(self, group: ModernGroup, member_id: str) -> None:
        for kind in self.purgatories:
            self.cancel(group, member_id, kind)

    def cancel_group(self, group: ModernGroup) -> None:
        for member_id, kind in list(group.timers):
            self.cancel(group, member_id, kind)

    def time_advanced(self, group: ModernGroup) -> None:
        """Wait until the same times of day as before, since the time was advanced."""
        now_ms = self.now_ms()
        for timer in list(group.timers.values()):
            if isinstance(timer, MemberTimer):
                remaining_ms = max(0, timer.deadline_ms - now_ms)
                self.purgatories[timer.key[1]].renew(timer, remaining_ms / 1_000)

    def abandon(self) -> None:
        """Drop what is called when a wait has ended by time."""
        self.on_expired = lambda _group, _member_id, _kind: None

    def _expired(self, group: ModernGroup, member_id: str, kind: str) -> None:
        with self.actions:
            self.cancel(group, member_id, kind)
            self.on_expired(group, member_id, kind)
