"""The compiled build's `native`: see native.py, whose place this takes, and native.h."""


cdef class CoreLock:
    """A lock for a handful of loads and stores. Its methods are C only."""


_LOCKS = tuple([CoreLock() for _ in range(64)])


cdef CoreLock lock_for(object thing):
    return <CoreLock> _LOCKS[rp_slot(thing)]


COMPILED = True
LIMIT = RP_LIMIT
