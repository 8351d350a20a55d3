cimport cython

from request_purgatory._native cimport primitives, states
from request_purgatory.clock cimport Clock
from request_purgatory.purgatory.operation cimport DelayedOperation
from request_purgatory.purgatory.purgatory cimport DelayedOperationPurgatory
from request_purgatory.timer._timer_core cimport TimerCore
from request_purgatory.timer.task cimport TimerTask
from request_purgatory.purgatory.watch_table cimport WatcherList, WatchShard


cdef class DelayQueueTimer(TimerCore):
    cdef object _heap_lock
    cdef readonly list _heap
    cdef long long _added
    cdef readonly long long _first_ms

    cdef _note_first(self)

    @cython.locals(delay_ms=longlong, expiration_ms=longlong, too_late=bint)
    cpdef add(self, TimerTask task)

    cdef long long _next_due_ms(self) except? -2

    cdef bint _collect_due(self) except -1

    @cython.locals(task=TimerTask, now_ms=longlong)
    cdef TimerTask _pop_due(self)

    @cython.locals(heap=list, kept=list, entry=tuple)
    cpdef purge(self)

    cdef list _drain(self)

    cpdef list _pending_tasks(self)


cdef class LegacyPurgatory(DelayedOperationPurgatory):
    cdef readonly DelayQueueTimer delay_queue
    cdef readonly long long requests_per_purge

    cpdef _reap(self, timeout_ms=*)

    cpdef purge(self)

    @cython.locals(dropped=Py_ssize_t, shard=WatchShard, watchers=WatcherList, operation=DelayedOperation)
    cdef _drop_ended(self)
