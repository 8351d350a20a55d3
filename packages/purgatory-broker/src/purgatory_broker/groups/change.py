"""A change of a group: records that are applied at once, and appended together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.group_messages import coordinator_error
from purgatory_broker.groups.modern.group import ModernGroup
from purgatory_broker.groups.modern.records import ModernKey, RecordKind
from purgatory_broker.groups.shards import AnyGroup, Record, Shard, Shards


@dataclass(slots=True, eq=False)
class Change:
    """Applies records to a group, and appends them as one batch.

    A request that finds an error in the middle calls `undo`. Otherwise `append` ends the change
    before another one of the group begins. The group's state has the records from then on; what was
    asked for is answered once they are replicated, also by requests that change nothing: a client
    must not learn of an epoch that the next coordinator does not know.
    """

    shards: Shards
    shard: Shard
    group: ModernGroup
    #: Called when the change was undone.
    on_undone: Callable[[], object] = lambda: None
    records: list[Record] = field(default_factory=list)
    _former: AnyGroup | None = None
    _before: list[tuple[ModernKey, Any | None]] = field(default_factory=list)

    def put(self, kind: RecordKind, value: Any | None, item: str = "") -> None:
        """Apply a record; None is a tombstone. Skip what the group has already."""
        key = self.group.key(kind, item)
        before = self.group.value_of(key)
        if before == value:
            return
        self._before.append((key, before))
        self.group.apply(key, value)
        self.records.append((key, value))

    def replace(self, former: AnyGroup, on_undone: Callable[[], object] = lambda: None) -> None:
        """Let the group take the place of another one, which comes back if that is undone."""
        self._former, self.on_undone = former, on_undone

    def undo(self) -> None:
        # The epoch may have begun for topics that have changed.
        self.group.needs_refresh |= bool(self._before)
        for key, value in reversed(self._before):
            self.group.apply(key, value)
        self._before.clear()
        self.records.clear()
        if self.shards.by_partition.get(self.shard.partition) is not self.shard:
            return  # Another node coordinates the group now.
        groups, group_id = self.shard.groups, self.group.group_id
        if groups.get(group_id) is self.group and not self.group.is_stored:
            if self._former is not None:
                groups[group_id] = self._former
            elif self.group.is_empty and not self.group.has_offsets:
                del groups[group_id]
        self.on_undone()

    def append(self, actions: ActionQueue, reply: Callable[[ErrorCode], object]) -> None:
        """Append the records; `reply` is called with NONE or what a client gets of the error."""
        writes = self.group.writes
        if not self.records:
            if writes:
                writes[-1].append(reply)
            else:
                actions.add(partial(reply, ErrorCode.NONE))
            return
        waiting = [reply]
        writes.append(waiting)
        is_appending = True

        def appended(error: ErrorCode) -> None:
            # With a later error the records are in the log, or another node has the group.
            if error is not ErrorCode.NONE and is_appending:
                self.undo()
            if waiting in writes:
                writes.remove(waiting)
            for each in waiting:
                actions.add(partial(each, coordinator_error(error)))

        self.shards.append_now(self.shard, self.records, appended)
        is_appending = False


def refuse_waiting(group: ModernGroup, actions: ActionQueue) -> None:
    """Answer what waits for a group's changes: another node coordinates the group now."""
    for waiting in group.writes:
        for reply in waiting:
            actions.add(partial(reply, ErrorCode.NOT_COORDINATOR))
        waiting.clear()
    group.writes.clear()
