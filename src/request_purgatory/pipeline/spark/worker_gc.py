"""The cyclic garbage collector in Spark's Python workers, where most of what is made is in no cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_settled = False


def settle_worker() -> None:
    """Have the collector leave alone what a worker has imported: going through that again and again took a sixth of a worker's
    time in streams, and a fourth in simulations. Once in each process."""
    global _settled
    if not _settled:
        gc.freeze()
        _settled = True


@contextmanager
def paused() -> Iterator[None]:
    """No collection in the block, which makes much that is in no cycle; afterwards as it was."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
