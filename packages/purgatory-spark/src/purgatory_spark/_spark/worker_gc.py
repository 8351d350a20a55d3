"""Control of Python's cyclic garbage collector in Spark's Python workers.

Workers create many objects, and hardly any of them is part of a reference cycle.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_frozen = False


def freeze_imported_objects() -> None:
    """Exclude the objects that exist now from later collections, once in each process.

    These are mostly imported modules. Scanning them again and again took a sixth of a worker's time
    in streams, and a quarter in simulations.
    """
    global _frozen
    if not _frozen:
        gc.freeze()
        _frozen = True


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable the collector for the block, and restore its previous state afterwards."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
