"""Python's cyclic collector in a process of a cluster's own."""

from __future__ import annotations

import gc

#: The number of new objects after which the collector looks at them. CPython's 700 are the objects
#: of 50 requests; with thousands of them waiting, a fifth of the time goes to collections.
THRESHOLD = 10_000


def collect_less() -> None:
    """Have the collector run less often, and leave out all objects that exist now.

    For a process of a cluster's own, before the cluster starts. The broker's requests make no
    cycles, and imported modules live as long as the process.
    """
    gc.freeze()
    gc.set_threshold(THRESHOLD)
