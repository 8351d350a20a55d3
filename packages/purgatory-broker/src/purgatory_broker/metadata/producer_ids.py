"""The producer ids of a node, in blocks from the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator


class ProducerIds:
    """A node's block of producer ids: none is assigned twice, by whichever node."""

    def __init__(self, allocate: Callable[[], range]) -> None:
        """`allocate` returns another block, or raises ControllerError."""
        self._allocate = allocate
        self._block: Iterator[int] = iter(())

    def next_id(self) -> int:
        """Return the next id; ControllerError if the block is used up and there is no other."""
        producer_id = next(self._block, None)
        if producer_id is None:
            self._block = iter(self._allocate())
            producer_id = next(self._block)
        return producer_id
