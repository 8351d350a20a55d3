"""The compiled build's `native`: see native.py, whose place this takes, and primitives.h."""


cdef class CoreLock:
    """A lock for a handful of loads and stores. Its methods are C only."""


def hold(CoreLock lock):
    """Acquire a lock for the time of a fork."""
    lock.acquire()


def let_go(CoreLock lock):
    """Release what `hold` acquired."""
    lock.release()


# In C these are constants, which have no names in Python.
globals().update(COMPILED=True, DEEPEST=DEEPEST, FORKS_HOLD_LOCKS=bool(FORKS_HOLD_LOCKS), HIDES=HIDES, LIMIT=LIMIT, MAX_DELAY_MS=MAX_DELAY_MS)
