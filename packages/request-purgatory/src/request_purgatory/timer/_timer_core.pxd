cimport cython

from request_purgatory._native cimport primitives
from request_purgatory.clock cimport Clock
from request_purgatory.timer._sleeping_threads cimport SleepingThread, SleepingThreads
from request_purgatory.timer.task cimport TimerHandle, TimerTask


cdef class TimerCore:
    cdef readonly str name
    cdef readonly Clock clock
    cdef public Py_ssize_t callback_errors
    cdef primitives.CoreLock _lock
    cdef readonly SleepingThreads _sleepers
    cdef bint _wake_requested
    cdef long long _num_wakes
    cdef bint _closed
    cdef bint _initialized
    cdef readonly object _errors
    cdef object __weakref__

    @cython.locals(now_ms=longlong, expiration_ms=longlong)
    cpdef long long _peek_expiration_ms(self) except? -2

    cpdef add(self, TimerTask task)

    cdef long long _next_due_ms(self) except? -2

    cdef bint _collect_due(self) except -1

    cdef TimerTask _pop_due(self)

    cdef list _drain(self)

    cpdef list _pending_tasks(self)

    cpdef advance_clock(self, timeout_ms)

    @cython.locals(came_due=bint)
    cdef bint _advance(self, timeout_ms, long long num_wakes) except -1

    @cython.locals(task=TimerTask, ended_ms=longlong)
    cdef _run_due(self, Py_ssize_t at_most)

    @cython.locals(
        lock=primitives.CoreLock,
        sleepers=SleepingThreads,
        sleeper=SleepingThread,
        until_ms=longlong,
        give_up_ms=longlong,
        others=bint,
    )
    cdef bint _wait(self, timeout_ms, long long num_wakes) except -1

    cdef long long _execute(self, TimerTask task, long long now_ms) except? -2

    @cython.locals(handle=TimerHandle)
    cpdef long long _run_task(self, TimerTask task, long long now_ms) except? -2

    cpdef wake(self)

    cdef _stop_clock_thread(self)
