cimport cython

from request_purgatory._native cimport primitives, states


cdef class PurgatoryCounters:
    cdef primitives.CoreLock _lock
    cdef long long[::1] _waits
    cdef readonly long long entered
    cdef readonly long long completed
    cdef readonly long long expired
    cdef readonly long long cancelled
    cdef readonly long long estimate
    cdef readonly long long since_purge
    cdef readonly long long purges
    cdef readonly long long purged
    cdef readonly long long callback_errors
    cdef readonly long long max_late_ms
    cdef readonly long long max_callback_ms

    cpdef begin(self)
    cpdef primitives.CoreLock fork_lock(self)
    cdef long long _pending(self) noexcept
    cpdef long long enter(self) except? -1
    cpdef long long end(self, int state, long long waited_ms) except? -1
    cpdef end_at_once(self, int state)
    cdef void _count_end(self, int state) noexcept

    cpdef callbacks_ran(self, long long late_ms, long long took_ms)

    @cython.locals(bucket=Py_ssize_t)
    cpdef read(self, Py_ssize_t purgatory_size)
