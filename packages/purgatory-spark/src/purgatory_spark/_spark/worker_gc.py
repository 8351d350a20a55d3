"""Control of Python's cyclic garbage collector in Spark's Python workers.

Workers create many objects, and hardly any of them is part of a reference cycle.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_frozen_modules = 0


def freeze_imported_objects() -> None:
    """Exclude the objects that exist now from later collections, once for what has been imported.

    These are mostly imported modules, some of which a worker's first task imports while it runs.
    Scanning them again and again took a sixth of a worker's time in streams, and a quarter in
    simulations. PySpark collects after each task, which took 8 ms with those of a stream's packers.
    """
    global _frozen_modules
    if len(sys.modules) > _frozen_modules:
        gc.freeze()
        _frozen_modules = len(sys.modules)


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
