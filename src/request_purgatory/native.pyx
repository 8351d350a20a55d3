"""The compiled build's `native`: see native.py, whose place this takes, and native.h."""


cdef class CoreLock:
    """A lock for a handful of loads and stores. Its methods are C only."""


# In C these are constants, which have no names in Python.
globals().update(COMPILED=True, HIDES=HIDES, LIMIT=LIMIT, MAX_DELAY_MS=MAX_DELAY_MS)
