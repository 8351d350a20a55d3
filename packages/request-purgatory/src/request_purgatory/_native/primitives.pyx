"""The compiled version of primitives.py, whose place it takes; see there, and primitives.h."""


cdef class CoreLock:
    """A lock for a few loads and stores. Its methods can be called from C only."""


def acquire_for_fork(CoreLock lock):
    """Acquire a lock for the time of a fork."""
    lock.acquire()


def release_after_fork(CoreLock lock):
    """Release a lock that `acquire_for_fork` acquired."""
    lock.release()


# C constants have no names in Python: define them.
globals().update(
    COMPILED=True,
    FORKS_HOLD_LOCKS=bool(FORKS_HOLD_LOCKS),
    HOLDS_GIL=HOLDS_GIL,
    LIMIT=LIMIT,
    MAX_CHECK_DEPTH=MAX_CHECK_DEPTH,
    MAX_DELAY_MS=MAX_DELAY_MS,
)
