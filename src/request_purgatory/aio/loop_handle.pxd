cimport cython

from request_purgatory._native cimport primitives
from request_purgatory.timer.task cimport TimerTask
from request_purgatory.timer.timer cimport SystemTimer


cdef class HandleTask(TimerTask):
    cdef public list due
    cdef public object handle

    cpdef bint cancel(self) except -1
    cdef _forget(self)


@cython.locals(task=HandleTask, now_ms=longlong)
cpdef HandleTask call_at(SystemTimer timer, double when, list due, handle)

@cython.locals(handle_task=HandleTask)
cpdef drop_all(SystemTimer timer)
