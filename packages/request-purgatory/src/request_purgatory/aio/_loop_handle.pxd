cimport cython

from request_purgatory._native cimport primitives
from request_purgatory.timer.task cimport TimerTask
from request_purgatory.timer.timer cimport SystemTimer


cdef class HandleTask(TimerTask):
    cdef public list due
    cdef public object handle

    cpdef bint cancel(self) except -1
    cdef release(self)


@cython.locals(task=HandleTask, now_ms=longlong)
cpdef HandleTask schedule_handle(SystemTimer timer, double when, list due, handle)

@cython.locals(handle_task=HandleTask)
cpdef shutdown_and_release(SystemTimer timer)
