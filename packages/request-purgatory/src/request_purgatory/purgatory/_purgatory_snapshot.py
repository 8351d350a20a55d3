"""What waits in a purgatory at one moment, by type of operation and by key."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TypeVar

from request_purgatory._native import primitives, states
from request_purgatory.errors import InvalidArgumentError, shown, whole_number
from request_purgatory.purgatory.hold import operation_name
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.watch_table import WatcherList, WatchTable

T = TypeVar("T")

#: A key's `repr` is cut to this many characters.
_MAX_REPR = 80


@dataclass(frozen=True, slots=True)
class WaitingGroup:
    """The pending operations of one type, or under one key.

    Attributes:
        name: The type's name; for `hold` the name that it was given, or `hold` with that of its
            condition; or the key's `repr`.
        count: The number of operations.
        oldest_ms: How long the oldest of them has waited, since it came or was last renewed.
        next_deadline_ms: The milliseconds until the first of them expires, below 0 where it should
            have; None where none of them has a timeout.
        tries: How often their conditions were tried so far, in all. Of one operation at most 65,535
            tries are counted.
    """

    name: str
    count: int
    oldest_ms: int
    next_deadline_ms: int | None
    tries: int

    def __str__(self) -> str:
        details = f"{_deadline(self.next_deadline_ms)}, {_times_tried(self.tries)}"
        return f"{self.count:>9,}  {self.name}: oldest {_duration(self.oldest_ms)}, {details}"


@dataclass(frozen=True, slots=True)
class WaitingOperation:
    """One pending operation.

    Attributes:
        name: The type's name; for `hold` the name that it was given, or `hold` with that of its
            condition.
        key: The `repr` of the first key that it watches.
        waited_ms: How long it has waited, since it came or was last renewed.
        deadline_ms: The milliseconds until it expires, below 0 where it should have; None without a
            timeout.
        tries: How often its condition was tried so far, at most 65,535.
    """

    name: str
    key: str
    waited_ms: int
    deadline_ms: int | None
    tries: int

    def __str__(self) -> str:
        details = f"{_deadline(self.deadline_ms)}, {_times_tried(self.tries)}"
        return f"{_duration(self.waited_ms):>9}  {self.name} under {self.key}: {details}"


@dataclass(frozen=True, slots=True)
class PurgatorySnapshot:
    """What waits in a purgatory at one moment. `str()` shows it in lines.

    The parts are read one after another, while other threads go on: a sum may differ by what came
    or ended meanwhile. It holds numbers and strings only, and keeps no operation and no key alive.

    Attributes:
        name: The purgatory's name.
        pending: The exact number of pending operations.
        watched: The number of entries in all watcher lists, those of ended operations included.
        num_keys: The number of watched keys.
        by_type: The types with the most pending operations, the most first.
        by_key: The keys with the most pending operations, the most first. An operation counts under
            each of its keys.
        longest: The operations that have waited longest, the longest first.
    """

    name: str
    pending: int
    watched: int
    num_keys: int
    by_type: tuple[WaitingGroup, ...]
    by_key: tuple[WaitingGroup, ...]
    longest: tuple[WaitingOperation, ...]

    def __str__(self) -> str:
        lines = [
            f"purgatory {self.name!r}: {self.pending:,} pending, "
            f"{self.watched:,} watched under {self.num_keys:,} keys"
        ]
        for title, rows in (
            ("by type", self.by_type),
            ("by key", self.by_key),
            ("longest waits", self.longest),
        ):
            if rows:
                lines += [f"  {title}:", *(f"  {row}" for row in rows)]
        return "\n".join(lines)


class _Group:
    """Sums up operations."""

    __slots__ = ("count", "deadline_ms", "entered_ms", "tries")

    def __init__(self) -> None:
        self.count = 0
        self.entered_ms = primitives.LIMIT
        self.deadline_ms = primitives.LIMIT
        self.tries = 0

    def add(self, entered_ms: int, deadline_ms: int, tries: int) -> None:
        self.count += 1
        self.tries += tries
        if entered_ms < self.entered_ms:
            self.entered_ms = entered_ms
        if deadline_ms < self.deadline_ms:
            self.deadline_ms = deadline_ms

    def named(self, name: str, now_ms: int) -> WaitingGroup:
        return WaitingGroup(
            name=name,
            count=self.count,
            oldest_ms=now_ms - self.entered_ms,
            next_deadline_ms=_remaining_ms(self.deadline_ms, now_ms),
            tries=self.tries,
        )


class _Walk:
    """Sums up the operations of watcher lists, one list after another."""

    def __init__(self, table: WatchTable, top: int) -> None:
        self.watched = 0
        self.num_keys = 0
        self.types: dict[str, _Group] = {}
        # Heaps of at most `top` entries, the least one first. What comes before the key differs in
        # all entries, so that no key is compared, whose comparison is user code.
        self.keys: list[tuple[int, int, object, _Group]] = []
        self.longest: list[tuple[int, int, str, int, int, object]] = []
        self._table = table
        self._top = top

    def visit(self, key: object, watchers: WatcherList, operations: list[DelayedOperation]) -> None:
        self.watched += len(operations)
        self.num_keys += 1
        group = _Group()
        # A key that was given twice has the operation twice.
        for operation in {id(operation): operation for operation in operations}.values():
            entered_ms = operation._entered_ms
            if operation._state != states.PENDING or entered_ms < 0:
                continue  # Ended, or still in its first try.
            deadline_ms = primitives.LIMIT
            if operation._timer_delay_ms < primitives.MAX_DELAY_MS:
                deadline_ms = entered_ms + operation._timer_delay_ms
            group.add(entered_ms, deadline_ms, operation._tries)
            if self._table.is_first_list(operation, watchers):
                self._add_once(operation, key, entered_ms, deadline_ms)
        if group.count:
            self._keep(self.keys, (group.count, -self.num_keys, key, group))

    def _add_once(
        self, operation: DelayedOperation, key: object, entered_ms: int, deadline_ms: int
    ) -> None:
        kind = operation_name(operation)
        group = self.types.get(kind)
        if group is None:
            group = self.types[kind] = _Group()
        group.add(entered_ms, deadline_ms, operation._tries)
        if len(self.longest) < self._top or -entered_ms > self.longest[0][0]:
            entry = (-entered_ms, -group.count, kind, deadline_ms, operation._tries, key)
            self._keep(self.longest, entry)

    def _keep(self, heap: list[T], entry: T) -> None:
        if len(heap) < self._top:
            heapq.heappush(heap, entry)  # type: ignore[type-var]  # All are tuples.
        else:
            heapq.heappushpop(heap, entry)  # type: ignore[type-var]


def take_snapshot(
    name: str, table: WatchTable, pending: int, now_ms: int, top: int
) -> PurgatorySnapshot:
    """Return what waits, by a walk over a watch table.

    O(its entries); in memory, a copy of one list at a time.
    """
    if whole_number("top", top) < 1:
        raise InvalidArgumentError("top", "at least 1", top)
    walk = _Walk(table, top)
    for shard in table.shards:
        for watchers in shard.lists():
            # Read first: a list that is left by its last operation forgets its key.
            key = watchers.key
            operations = shard.operations_of(watchers)
            if operations:
                walk.visit(key, watchers, operations)
    largest = sorted(walk.types.items(), key=lambda item: (-item[1].count, item[0]))[:top]
    return PurgatorySnapshot(
        name=name,
        pending=pending,
        watched=walk.watched,
        num_keys=walk.num_keys,
        by_type=tuple(group.named(kind, now_ms) for kind, group in largest),
        by_key=tuple(
            group.named(_shown(key), now_ms) for *_, key, group in sorted(walk.keys, reverse=True)
        ),
        longest=tuple(
            WaitingOperation(
                name=kind,
                key=_shown(key),
                waited_ms=now_ms + minus_entered_ms,
                deadline_ms=_remaining_ms(deadline_ms, now_ms),
                tries=tries,
            )
            for minus_entered_ms, _, kind, deadline_ms, tries, key in sorted(
                walk.longest, reverse=True
            )
        ),
    )


def _remaining_ms(deadline_ms: int, now_ms: int) -> int | None:
    return None if deadline_ms >= primitives.LIMIT else deadline_ms - now_ms


def _shown(key: object) -> str:
    """Return a key's `repr`, which is user code, as printable text that fits in a line."""
    text = shown(key)[: _MAX_REPR + 1]
    if not text.isprintable():
        # A terminal would obey it, and a lone surrogate has no encoding.
        text = "".join(
            character if character.isprintable() else repr(character)[1:-1] for character in text
        )
    return text if len(text) <= _MAX_REPR else text[: _MAX_REPR - 3] + "..."


def _duration(ms: int) -> str:
    seconds = ms / 1000
    if seconds < 1:
        return f"{ms} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h"


def _times_tried(tries: int) -> str:
    return "tried once" if tries == 1 else f"tried {tries:,} times"


def _deadline(remaining_ms: int | None) -> str:
    if remaining_ms is None:
        return "without a timeout"
    if remaining_ms < 0:
        return f"overdue by {_duration(-remaining_ms)}"
    return f"expires in {_duration(remaining_ms)}"
