"""What leaves a watch table, as a list."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from request_purgatory import DelayedOperation
from request_purgatory._native import primitives
from request_purgatory.purgatory._operation_chain import OperationChain
from request_purgatory.purgatory.watch_table import WatchShard


def contents(chain: OperationChain) -> list[DelayedOperation]:
    """Empty a chain, and return its operations in their order."""
    operations = []
    operation = chain.pop()
    while operation is not None:
        operations.append(operation)
        operation = chain.pop()
    return operations


def removed_by(remove: Callable[[OperationChain], object]) -> list[DelayedOperation]:
    """Return the operations that `remove` adds to a chain."""
    chain = OperationChain(primitives.CoreLock())
    remove(chain)
    return contents(chain)


def drop_key(shard: WatchShard, key: Hashable) -> list[DelayedOperation]:
    """Remove a key's operations from its list, as `cancel_for_key` does, and return them."""
    watchers = shard.get(key)
    if watchers is None:
        return []
    return [
        operation for operation in shard.operations_of(watchers) if shard.drop(watchers, operation)
    ]
