"""The smallest Python request for the purgatories of the benchmark."""

from __future__ import annotations

from benchmarks import peers
from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    SystemTimer,
)
from request_purgatory.clock import Clock
from request_purgatory.legacy import LegacyPurgatory

#: Too long to expire during a measurement.
TIMEOUT_MS = 60_000
#: The number of operations after which a purgatory without a reaper advances its clock, so that it
#: purges.
ADVANCE_EVERY = 1_000


class Request(DelayedOperation):
    """A request that completes once `ready` is set.

    The caller must set `ready` to False: an `__init__` would be most of the cost of a request.
    """

    __slots__ = ("ready",)

    ready: bool

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        pass


def watch_keys(count: int) -> list[str]:
    """Return `count` watch keys."""
    return [f"orders-{number}" for number in range(count)]


def open_purgatory(
    side: str, clock: Clock | None = None, *, shards: int = 512
) -> DelayedOperationPurgatory:
    """Return a purgatory of the side's design, without a reaper; the 0.8 design has one shard."""
    if side == peers.LEGACY:
        return LegacyPurgatory("benchmark", clock=clock, reaper=False)
    timer = SystemTimer("benchmark", clock=clock) if clock is not None else None
    return DelayedOperationPurgatory("benchmark", timer=timer, shards=shards, reaper=False)
