"""Measure the memory of pending operations and of this process."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from request_purgatory.clock import ManualClock
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer import SystemTimer


class _PendingOperation(DelayedOperation):
    __slots__ = ()

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        pass


@contextmanager
def tracing_memory() -> Iterator[None]:
    """Collect garbage, then trace memory in the block; tracing that was enabled stays enabled."""
    gc.collect()
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        yield
    finally:
        if not was_tracing:
            tracemalloc.stop()


def bytes_per_pending_operation(keys: int = 1, *, operations: int = 5_000) -> float:
    """Return the mean bytes of a pending operation that is the only one under each of its keys.

    Counted are the operation, its links in the watcher lists and the timer, and the watcher lists
    themselves. The keys and the attributes of a service's own operation class come on top. With
    many keys fewer operations are measured, so that there are at most `2 * operations` keys.
    """
    operations = max(1, min(operations, 2 * operations // max(keys, 1)))
    keys_of_operations = [
        tuple(f"{operation}/{key}" for key in range(max(keys, 1)))
        for operation in range(operations)
    ]
    clock = ManualClock()
    purgatory = DelayedOperationPurgatory(
        "measured", timer=SystemTimer("measured", clock=clock), reaper=False
    )
    with tracing_memory():
        before, _ = tracemalloc.get_traced_memory()
        for watch_keys in keys_of_operations:
            purgatory.try_complete_else_watch(_PendingOperation(30_000), watch_keys)
        after, _ = tracemalloc.get_traced_memory()
        purgatory.close()
    return (after - before) / operations


def peak_memory_bytes() -> int:
    """Return the peak resident memory of this process in bytes, or 0 if it is unknown."""
    try:
        # `ru_maxrss` survives `exec`, so it may be the peak of the JVM that forked this process;
        # VmHWM is this process's own.
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
