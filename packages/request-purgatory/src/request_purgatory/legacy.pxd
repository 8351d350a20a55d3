cimport cython

from request_purgatory._native cimport primitives, states
from request_purgatory.clock cimport Clock
from request_purgatory.purgatory.operation cimport DelayedOperation
from request_purgatory.purgatory.purgatory cimport DelayedOperationPurgatory
from request_purgatory.timer._sleeping_threads cimport SleepingThread, SleepingThreads
from request_purgatory.timer.task cimport TimerTask
from request_purgatory.purgatory.watch_table cimport WatcherList, WatchShard


cdef class DelayQueueTimer:
    cdef readonly str name
    cdef readonly Clock clock
    cdef public Py_ssize_t callback_errors
    cdef object _errors
    cdef object _lock
    cdef readonly SleepingThreads _sleepers
    cdef list _heap
    cdef long long _added
    cdef bint _wake_requested
    cdef bint _closed
    cdef object __weakref__

    @cython.locals(delay_ms=longlong)
    cpdef add(self, TimerTask task)

    @cython.locals(task=TimerTask)
    cpdef advance_clock(self, timeout_ms)

    @cython.locals(sleeper=SleepingThread, give_up_ms=longlong, until_ms=longlong, others=bint)
    cdef bint _wait(self, timeout_ms) except -1

    cdef bint _is_due(self) except -1

    @cython.locals(heap=list, kept=list, entry=tuple)
    cpdef purge(self)

    cpdef wake(self)


cdef class LegacyPurgatory(DelayedOperationPurgatory):
    cdef readonly DelayQueueTimer delay_queue
    cdef readonly long long requests_per_purge

    cpdef _reap(self, timeout_ms=*)

    cpdef purge(self)

    @cython.locals(dropped=Py_ssize_t, shard=WatchShard, watchers=WatcherList, operation=DelayedOperation)
    cdef _drop_ended(self)
