cimport cython

from request_purgatory.timer.task cimport PendingTasks, TaskList, TimerTask


@cython.final
cdef class Bucket(TaskList):
    cdef public long long expiration_ms

    cpdef append(self, TimerTask task)

    cpdef remove(self, TimerTask task)

    @cython.locals(task=TimerTask)
    cpdef TimerTask pop_first(self)
