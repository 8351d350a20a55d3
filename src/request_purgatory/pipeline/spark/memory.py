"""Memory, measured.

What a pending request takes on the build that is installed, and what a process has taken.
"""

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


class _Waiting(DelayedOperation):
    __slots__ = ()

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        pass


@contextmanager
def traced() -> Iterator[None]:
    """`tracemalloc` traces in the block, from a heap without garbage on.

    If it did so before, it goes on.
    """
    gc.collect()
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        yield
    finally:
        if not tracing:
            tracemalloc.stop()


def bytes_per_pending_operation(keys: int = 1, *, operations: int = 20_000) -> float:
    """Bytes for each pending operation that is watched under `keys` keys of its own: itself, its links, its watcher lists.

    The operation's class has no attributes of its own; what a service adds comes on top, the keys
    themselves too.

    Args:
        keys: watch keys an operation, at least 1.
        operations: how many are put into a purgatory and measured with `tracemalloc`; fewer if they
            have many keys.
    """
    operations = max(1, min(operations, 2 * operations // max(keys, 1)))
    names = [
        tuple(f"{operation}/{key}" for key in range(max(keys, 1)))
        for operation in range(operations)
    ]
    clock = ManualClock()
    purgatory = DelayedOperationPurgatory(
        "measured", timer=SystemTimer("measured", clock=clock), reaper=False
    )
    with traced():
        before, _ = tracemalloc.get_traced_memory()
        for watch_keys in names:
            purgatory.try_complete_else_watch(_Waiting(30_000), watch_keys)
        after, _ = tracemalloc.get_traced_memory()
        purgatory.shutdown()
    return (after - before) / operations


def peak_memory_bytes() -> int:
    """The most resident memory that this process has had so far.

    0 where the system does not tell.
    """
    try:
        # Not `ru_maxrss`, where there is this: it keeps what the process was before its `exec`,
        # which may have been a JVM's fork.
        for line in (
            Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        ):
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
