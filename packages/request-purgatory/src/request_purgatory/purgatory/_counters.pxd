cimport cython

from request_purgatory._native cimport primitives, states


@cython.final
cdef class PurgatoryCounters:
    cdef readonly primitives.CoreLock lock
    cdef bytearray _waits
    cdef readonly long long entered
    cdef readonly long long completed
    cdef readonly long long expired
    cdef readonly long long cancelled
    cdef readonly long long estimate
    cdef readonly long long since_purge
    cdef readonly long long total_wait_ms
    cdef readonly long long purges
    cdef readonly long long purged
    cdef readonly long long callback_errors
    cdef readonly long long max_late_ms
    cdef readonly long long max_callback_ms

    cpdef reset(self)
    cdef long long pending_unlocked(self) noexcept
    cpdef long long count_entered(self) noexcept
    @cython.locals(bucket=int, unpurged=longlong)
    cpdef long long count_ended(self, int state, long long waited_ms) noexcept
    cpdef count_ended_at_once(self, int state)
    cdef void _count_end(self, int state) noexcept

    cpdef record_callback_times(self, long long late_ms, long long took_ms)

    @cython.locals(bucket=Py_ssize_t)
    cpdef snapshot(self, Py_ssize_t purgatory_size)
