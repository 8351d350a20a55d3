"""The request that the purgatories of the benchmark hold.

The least that a Python subclass can be.
"""

from __future__ import annotations

from benchmarks import peers
from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    LegacyPurgatory,
    SystemTimer,
)
from request_purgatory.clock import Clock

#: Far enough away that nothing expires while it is measured, where nothing is to.
TIMEOUT_MS = 60_000
#: After so many operations the purgatory's clock is advanced, where it has no reaper, so that
#: purges happen.
ADVANCE_EVERY = 1_000


class Request(DelayedOperation):
    """Complete once `ready` is set.

    Whoever makes one sets it to False: an `__init__` for that would be most of the cost.
    """

    __slots__ = ("ready",)

    ready: bool

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        pass


def keys_of(count: int) -> list[str]:
    """So many watch keys."""
    return [f"orders-{number}" for number in range(count)]


def open_purgatory(
    side: str, clock: Clock | None = None, *, shards: int = 512
) -> DelayedOperationPurgatory:
    """A purgatory of the side's design, without a reaper; the 0.8 design's has one shard."""
    if side == peers.LEGACY:
        return LegacyPurgatory("benchmark", clock=clock, reaper=False)
    timer = SystemTimer("benchmark", clock=clock) if clock is not None else None
    return DelayedOperationPurgatory("benchmark", timer=timer, shards=shards, reaper=False)
