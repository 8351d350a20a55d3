cimport cython

from request_purgatory._native cimport primitives, states
from request_purgatory.clock cimport Clock
from request_purgatory.metrics cimport PurgatoryCounters
from request_purgatory.purgatory.operation cimport DelayedOperation, Keeper
from request_purgatory.purgatory.purge_backlog cimport Unpurged
from request_purgatory.timer.timer cimport SystemTimer
from request_purgatory.purgatory.watch cimport Watch, WatcherList
from request_purgatory.purgatory.watch_table cimport WatcherLists


cdef class DelayedOperationPurgatory(Keeper):
    cdef readonly str name
    cdef readonly object timer
    cdef public long long purge_interval
    cdef readonly bint _owns_timer
    cdef readonly SystemTimer _wheel_timer
    cdef bint _hides
    cdef Clock _clock
    cdef readonly list _shards
    cdef readonly PurgatoryCounters _counters
    cdef readonly Unpurged _unpurged
    cdef readonly bint _closed
    cdef readonly bint _purge_requested
    cdef public long long warn_after_ms
    cdef bint _measures
    cdef long long _warned_ms
    cdef readonly object _reaper
    cdef bint _reaper_unstarted
    cdef object _be_called
    cdef object __weakref__

    @cython.locals(counters=PurgatoryCounters, completed=bint, state=int, now_ns=longlong, cancelled=bint)
    cpdef bint try_complete_else_watch(self, DelayedOperation operation, watch_keys) except -1

    @cython.locals(shards=list, shard=WatcherLists)
    cdef _watch(self, DelayedOperation operation, keys)

    cdef _await_timeout(self, DelayedOperation operation, long long start_ms)

    cdef bint _forget(self, DelayedOperation operation) except -1

    cdef _leave_to_purge(self, DelayedOperation operation)

    @cython.locals(shards=list, shard=WatcherLists, watchers=WatcherList, depth=int)
    cpdef Py_ssize_t check_and_complete(self, key) except -1

    @cython.locals(only=Watch, watch=Watch, completed=Py_ssize_t)
    cdef Py_ssize_t _check_all(self, WatcherLists shard, WatcherList watchers) except -1

    @cython.locals(shards=list, shard=WatcherLists)
    cpdef Py_ssize_t watched_under(self, key) except -1

    @cython.locals(operation=DelayedOperation, completed=bint, watches=Watch)
    cpdef bint _check(self, WatcherLists shard, Watch watch) except -1

    cpdef bint advance_clock(self, timeout_ms) except -1

    cpdef _reap(self)

    cpdef purge_if_due(self)

    cdef bint _purge_due(self, long long unpurged) except -1

    cdef _request_purge(self)

    cpdef purge(self)

    cdef _drop_ended(self)

    @cython.locals(waited_ms=longlong)
    cpdef _operation_ended(self, DelayedOperation operation, int state)

    cpdef _callback_failed(self, DelayedOperation operation, error)

    cpdef long long _now_ms(self) except? -1

    @cython.locals(now_ms=longlong, late_ms=longlong, took_ms=longlong)
    cpdef _callbacks_ran(self, DelayedOperation operation, long long began_ms)
