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

#: The errors after which records may be in the log: the state keeps them.
MAY_BE_WRITTEN = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


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
    #: The group of another kind whose place the group takes.
    former: AnyGroup | None = None
    records: list[Record] = field(default_factory=list)
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

    def undo(self) -> None:
        for key, value in reversed(self._before):
            self.group.apply(key, value)
        self._before.clear()
        self.records.clear()
        groups, group_id = self.shard.groups, self.group.group_id
        if groups.get(group_id) is not self.group or self.group.has_record:
            return
        if self.former is not None:
            groups[group_id] = self.former
        elif self.group.is_empty:
            del groups[group_id]

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

        def appended(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE and error not in MAY_BE_WRITTEN:
                self.undo()
            if waiting in writes:
                writes.remove(waiting)
            for each in waiting:
                actions.add(partial(each, coordinator_error(error)))

        self.shards.append_now(self.shard, self.records, appended)
