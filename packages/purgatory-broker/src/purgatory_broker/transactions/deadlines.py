"""The delayed operations of the transaction coordinator's purgatories.

A transaction has a timeout, and a transactional id that is not used expires. An operation knows the
transaction's id, and calls back when it ends; it does not know the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.transactions.transaction import Transaction
from purgatory_broker.transactions.transaction_log import TransactionShard
from request_purgatory.aio import Purgatory
from request_purgatory.purgatory.operation import DelayedOperation


class DelayedDeadline(DelayedOperation):
    """Waits for the deadline of a transaction, watching its id. It expires unless it is stale."""

    __slots__ = ("_deadlines", "deadline_ms", "shard", "transaction")

    def __init__(
        self,
        deadlines: Deadlines,
        shard: TransactionShard,
        transaction: Transaction,
        timeout_ms: int,
        deadline_ms: int,
    ) -> None:
        """Wait for `timeout_ms`, until `deadline_ms` since the epoch."""
        super().__init__(timeout_ms)
        self._deadlines = deadlines
        self.shard = shard
        self.transaction = transaction
        self.deadline_ms = deadline_ms

    @property
    def is_stale(self) -> bool:
        """True if another operation waits for this id, or none does."""
        return self._deadlines.operations.get(self.transaction.transactional_id) is not self

    def try_complete(self) -> bool:
        return self.is_stale and self.force_complete()

    def on_complete(self) -> None:
        """Do nothing: no request waits for a deadline."""

    def on_expiration(self) -> None:
        if not self.is_stale:
            self._deadlines.expire(self)


@dataclass(slots=True, eq=False)
class Deadlines:
    """The deadlines of a node's transactions of one kind, by transactional id."""

    purgatory: Purgatory
    actions: ActionQueue
    now_ms: Callable[[], int]
    on_expired: Callable[[TransactionShard, Transaction], None]
    #: The operation in force of each id; every other one is stale.
    operations: dict[str, DelayedDeadline] = field(default_factory=dict)

    def set_first(self, shard: TransactionShard, transaction: Transaction, at_ms: int) -> None:
        """As `set`; no-op if the transaction has a deadline."""
        present = self.operations.get(transaction.transactional_id)
        if present is None or present.transaction is not transaction:
            self.set(shard, transaction, at_ms)

    def set(self, shard: TransactionShard, transaction: Transaction, at_ms: int) -> None:
        """Expire a transaction at a time of day."""
        transactional_id = transaction.transactional_id
        present = self.operations.get(transactional_id)
        if (
            present is not None
            and present.transaction is transaction
            and present.deadline_ms == at_ms
        ):
            return
        self.cancel(transactional_id)
        operation = DelayedDeadline(self, shard, transaction, max(0, at_ms - self.now_ms()), at_ms)
        self.operations[transactional_id] = operation
        self.actions.add(
            partial(self.purgatory.try_complete_else_watch, operation, [transactional_id])
        )

    def cancel(self, transactional_id: str) -> None:
        if self.operations.pop(transactional_id, None) is not None:
            self.actions.add(partial(self.purgatory.notify, transactional_id))

    def expire(self, operation: DelayedDeadline) -> None:
        del self.operations[operation.transaction.transactional_id]
        with self.actions:
            self.on_expired(operation.shard, operation.transaction)

    def time_advanced(self) -> None:
        """Keep the deadlines at the same time of day, since the time was advanced."""
        now_ms = self.now_ms()
        for operation in list(self.operations.values()):
            self.purgatory.renew(operation, max(0, operation.deadline_ms - now_ms) / 1_000)

    def abandon(self) -> None:
        """Forget all deadlines, and break the cycles, after the node's stop."""
        self.operations.clear()
        self.on_expired = lambda _shard, _transaction: None
