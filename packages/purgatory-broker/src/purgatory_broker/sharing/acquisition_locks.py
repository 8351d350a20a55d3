"""The times for which members have records for themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.sharing.records import AcquisitionLock
from request_purgatory.aio import Purgatory
from request_purgatory.purgatory.operation import DelayedOperation


class DelayedLockEnd(DelayedOperation):
    """Waits until a lock has no more records, watching the lock; otherwise it expires."""

    __slots__ = ("_expire", "deadline_ms", "lock")

    def __init__(
        self,
        lock: AcquisitionLock,
        timeout_ms: int,
        deadline_ms: int,
        expire: Callable[[DelayedLockEnd], None],
    ) -> None:
        """Wait for `timeout_ms`, until `deadline_ms` since the epoch."""
        super().__init__(timeout_ms)
        self.lock = lock
        self.deadline_ms = deadline_ms
        self._expire = expire

    def try_complete(self) -> bool:
        return not self.lock.num_records and self.force_complete()

    def on_complete(self) -> None:
        """Do nothing: no request waits for the end of a lock."""

    def on_expiration(self) -> None:
        self._expire(self)


@dataclass(slots=True, eq=False)
class AcquisitionLocks:
    """The locks of a node that have records, each with what is called when its time is over."""

    purgatory: Purgatory
    actions: ActionQueue
    #: The time of day in milliseconds since 1970.
    now_ms: Callable[[], int]
    _operations: dict[AcquisitionLock, tuple[DelayedLockEnd, Callable[[], None]]] = field(
        default_factory=dict
    )

    def start(
        self, lock: AcquisitionLock, duration_ms: int, on_expired: Callable[[], None]
    ) -> None:
        operation = DelayedLockEnd(lock, duration_ms, self.now_ms() + duration_ms, self._expire)
        self._operations[lock] = operation, on_expired
        self.actions.add(partial(self.purgatory.try_complete_else_watch, operation, [lock]))

    def end(self, lock: AcquisitionLock) -> None:
        """Wait no longer for a lock that has no more records."""
        if self._operations.pop(lock, None) is not None:
            self.actions.add(partial(self.purgatory.notify, lock))

    def _expire(self, operation: DelayedLockEnd) -> None:
        found = self._operations.pop(operation.lock, None)
        if found is not None:
            with self.actions:
                found[1]()

    def time_advanced(self) -> None:
        """Keep the deadlines at the same time of day, since the time was advanced."""
        now_ms = self.now_ms()
        for operation, _ in list(self._operations.values()):
            self.purgatory.renew(operation, max(0, operation.deadline_ms - now_ms) / 1_000)

    def abandon(self) -> None:
        """Forget all locks, and break the cycles, after the node's stop."""
        self._operations.clear()
