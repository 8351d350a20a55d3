"""What leaves a watch table, as a list."""

from __future__ import annotations

from collections.abc import Callable

from request_purgatory import DelayedOperation
from request_purgatory._native import primitives
from request_purgatory.purgatory.operation_chain import OperationChain


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
