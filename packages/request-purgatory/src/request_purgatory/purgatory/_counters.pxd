cimport cython

from request_purgatory._native cimport primitives, states


cdef enum:
    NUM_WAITS = 1664

cdef extern from "primitives.h":
    enum:
        NUM_STRIPES "RP_STRIPES"


# What `_Stripe` is in the interpreted build. A multiple of a cache line.
ctypedef struct CounterStripe:
    long long entered
    long long completed
    long long expired
    long long cancelled
    long long unpurged
    long long since_purge
    long long total_wait_ms
    long long others
    long long waits[NUM_WAITS]


@cython.final
cdef class PurgatoryCounters:
    cdef readonly primitives.CoreLock lock
    cdef list _further_locks
    cdef CounterStripe _stripes[NUM_STRIPES]
    cdef readonly str name
    cdef readonly long long purges
    cdef readonly long long purged
    cdef readonly long long callback_errors
    cdef readonly long long max_late_ms
    cdef readonly long long max_callback_ms

    @cython.locals(index=int, bucket=int)
    cpdef reset(self)

    @cython.locals(lock=primitives.CoreLock)
    cdef void _acquire(self, int index) noexcept

    @cython.locals(lock=primitives.CoreLock)
    cdef void _release(self, int index) noexcept

    @cython.locals(index=int)
    cdef void _acquire_all(self) noexcept

    @cython.locals(index=int)
    cdef void _release_all(self) noexcept

    @cython.locals(index=int, pending=longlong)
    cdef long long pending_unlocked(self) noexcept

    @cython.locals(index=int, unpurged=longlong)
    cdef long long unpurged_unlocked(self) noexcept

    cdef long long _unpurged_seen(self, int index) noexcept

    @cython.locals(index=int, unpurged=longlong)
    cpdef long long count_entered(self) noexcept

    @cython.locals(index=int, shift=int, bucket=longlong, unpurged=longlong)
    cpdef long long count_ended(self, int state, long long waited_ms) noexcept

    @cython.locals(index=int)
    cpdef count_ended_at_once(self, int state)

    cdef void _count_end(self, int index, int state) noexcept

    @cython.locals(index=int)
    cpdef begin_purge(self)

    cpdef record_callback_times(self, long long late_ms, long long took_ms)

    @cython.locals(
        index=int,
        bucket=int,
        completed=longlong,
        expired=longlong,
        cancelled=longlong,
        total_wait_ms=longlong,
        pending=longlong,
        unpurged=longlong,
    )
    cpdef snapshot(self, Py_ssize_t purgatory_size)
