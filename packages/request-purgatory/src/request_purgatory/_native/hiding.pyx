"""The compiled version of hiding.py: hides waiting operations from the cyclic collector.

The collector traverses a tracked operation repeatedly while it waits: in a young generation, in an
older one, and then in every full collection. A purgatory on a `SystemTimer` avoids the first two.
It hides an operation, which means that it takes it off the collector's lists, from the time when it
waits until it has left. Meanwhile its referents count as reachable, and `gc.get_objects()` does not
have it.

Before each full collection, including `gc.collect()`, the purgatories show all that they hide, and
after it they hide it again. So each full collection finds what it would find without this.
"""

import gc
import weakref

#: Weak references to the purgatories that hide operations.
cdef set _hosts = set()


def register(host):
    """Have a host show what it hides during full collections, for as long as it exists.

    Args:
        host: A purgatory; its `_show_waiting` and `_hide_waiting` are called.
    """
    keep_installed()
    _hosts.add(weakref.ref(host, _hosts.discard))


def keep_installed():
    """Take part in collections again, if other code has cleared `gc.callbacks`."""
    if _around_collections not in gc.callbacks:
        gc.callbacks.append(_around_collections)


def _around_collections(phase, info):
    # No lock of the core is held here: the core creates no objects, which could start a collection,
    # under a lock.
    if info["generation"] < 2:
        return
    for reference in list(_hosts):
        host = reference()
        if host is None:
            continue
        if phase == "start":
            host._show_waiting()
        else:
            host._hide_waiting()
    if not _hosts and _around_collections in gc.callbacks:
        gc.callbacks.remove(_around_collections)


# C constants have no names in Python: define this one.
globals().update(HIDES=HIDES)
