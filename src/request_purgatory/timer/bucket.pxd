cimport cython

from request_purgatory cimport native
from request_purgatory.timer.task cimport TaskList, TimerTask


@cython.final
cdef class PendingTasks:
    cdef readonly native.CoreLock lock
    cdef public Py_ssize_t count


cdef class Bucket(TaskList):
    cdef readonly PendingTasks pending
    cdef public long long expiration_ms
    cdef readonly TimerTask head
    cdef readonly TimerTask tail

    cpdef void append(self, TimerTask task) noexcept
    cpdef void remove(self, TimerTask task) noexcept
    cdef bint take_out(self, TimerTask task) except -1
    cpdef TimerTask pop_first(self)

    cpdef list tasks(self)
