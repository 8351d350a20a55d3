"""The compiled version of hiding.py: hides waiting operations from the cyclic collector.

The collector traverses a tracked operation repeatedly while it waits: in a young generation, in an
older one, and then in every full collection. A purgatory on a `SystemTimer` avoids the first two.
It hides an operation, which means that it takes it off the collector's lists, from the time when it
waits until it has left. Meanwhile its referents count as reachable, and `gc.get_objects()` does not
have it.

Before each full collection, including `gc.collect()`, a purgatory shows all that it hides, and after
it hides it again. So each full collection finds what it would find without this. But where a running
thread or loop refers to the purgatory, nothing that waits there is garbage. Then it shows nothing,
and has its buckets and lists passed over for as long as the collection lasts. A timer with
a thread of its own does the same with its buckets.
"""

import gc

from request_purgatory._native.forks import IdentityRef

#: Weak references to the purgatories that hide operations.
cdef set _hosts = set()

#: Those that show what they hide in the collection that is under way, and those that are passed over.
cdef list _shown = []
cdef list _passed_over = []


def register(host):
    """Have a host show what it hides during full collections, for as long as it exists.

    Args:
        host: A purgatory or timer; its `_is_driven`, `_show_waiting` and `_hide_waiting` are called,
            and `_pass_over` with True and False where it is driven.
    """
    keep_installed()
    _hosts.add(IdentityRef(host, _hosts.discard))


def keep_installed():
    """Take part in collections again, if other code has cleared `gc.callbacks`."""
    if _around_collections not in gc.callbacks:
        gc.callbacks.append(_around_collections)


def _around_collections(phase, info):
    # No lock of the core is held here: the core creates no objects, which could start a collection,
    # under a lock.
    # A free-threaded build has one generation, whatever it calls it.
    if info["generation"] < 2 and not FREE_THREADED:
        return
    if phase == "start":
        for reference in list(_hosts):
            host = reference()
            if host is None:
                continue
            if host._is_driven():
                _passed_over.append(reference)
                host._pass_over(True)
            elif HIDES:
                _shown.append(reference)
                host._show_waiting()
        return
    while _passed_over:
        host = _passed_over.pop()()
        if host is not None:
            host._pass_over(False)
    while _shown:
        host = _shown.pop()()
        if host is not None:
            host._hide_waiting()
    if not _hosts and _around_collections in gc.callbacks:
        gc.callbacks.remove(_around_collections)


# C constants have no names in Python: define this one.
globals().update(HIDES=HIDES)
