cimport cython

from request_purgatory._native cimport hiding, linked_list, primitives, states
from request_purgatory.clock cimport Clock
from request_purgatory.purgatory._counters cimport PurgatoryCounters
from request_purgatory.purgatory.hold cimport HoldOperation
from request_purgatory.purgatory.operation cimport DelayedOperation, OperationHost
from request_purgatory.purgatory._operation_chain cimport OperationChain
from request_purgatory.purgatory._purge_backlog cimport PurgeBacklog
from request_purgatory.timer.timer cimport SystemTimer
from request_purgatory.purgatory.watch_table cimport WatcherList, WatchShard, WatchTable


cpdef checked_keys(str name, keys, int at_least=*)


cdef class PurgatoryCore(OperationHost):
    cdef readonly object timer
    cdef public long long purge_interval
    cdef readonly bint _owns_timer
    cdef readonly SystemTimer _wheel_timer
    cdef bint _hides
    cdef Clock _clock
    cdef readonly WatchTable _table
    cdef readonly PurgatoryCounters _counters
    cdef readonly dict _labels
    cdef primitives.CoreLock _chain_lock
    cdef readonly PurgeBacklog _backlog
    cdef readonly OperationChain _leaving
    cdef readonly bint _closed
    cdef bint _initialized
    cdef readonly bint _purge_requested
    cdef public long long warn_after_ms
    cdef bint _measures
    cdef bint _trusts_clock
    cdef long long _warned_ms
    cdef readonly object _errors
    cdef readonly object _reaper
    cdef public object _alarm
    cdef bint _reaper_unstarted
    cdef object __weakref__

    @cython.locals(completed=bint, counted=bint, now_ns=longlong, now_ms=longlong)
    cpdef bint try_complete_else_watch(self, DelayedOperation operation, watch_keys) except -1

    @cython.final
    @cython.locals(state=int)
    cdef bint _count_in(self, DelayedOperation operation, long long now_ms) except -1

    @cython.final
    @cython.locals(delay_ms=longlong)
    cdef _start_timeout(self, DelayedOperation operation, long long entered_ms, long long start_ms)

    @cython.final
    cdef _add_to_timer(self, DelayedOperation operation, long long start_ms)

    @cython.final
    cdef _follow_renewals(self, DelayedOperation operation, long long entered_ms, long long delay_ms)

    @cython.final
    @cython.locals(timer=SystemTimer)
    cdef _move_in_timer(self, DelayedOperation operation, long long start_ms)

    @cython.locals(entered_ms=longlong, delay_ms=longlong, next_ms=longlong)
    cdef _ran_early(self, DelayedOperation operation)

    @cython.final
    cdef bint _withdraw(self, DelayedOperation operation) except -1

    @cython.final
    cdef _abandon(self, DelayedOperation operation, error, bint counted)

    cpdef _enter_named(self, HoldOperation operation, keys, name)

    cpdef _remaining_ms(self, timeout, deadline)

    @cython.locals(now_ns=longlong, now_ms=longlong, timeout_ms=longlong, was_added=bint)
    cpdef bint renew(self, DelayedOperation operation, timeout) except -1

    cpdef bint _discard(self, DelayedOperation operation) except -1

    @cython.final
    cdef _check_own(self, DelayedOperation operation)

    @cython.locals(
        cancelled=list,
        shard=WatchShard,
        watchers=WatcherList,
        operations=list,
        index=Py_ssize_t,
        operation=DelayedOperation,
    )
    cpdef list cancel_for_key(self, key)

    cpdef Py_ssize_t num_watchers(self, key) except -1

    cpdef Py_ssize_t check_and_complete(self, key) except -1

    @cython.locals(shard=WatchShard, watchers=WatcherList, depth=int)
    cpdef Py_ssize_t _check(self, key, bint counts_ends) except -1

    @cython.final
    cdef _postpone(self, key)

    @cython.final
    cdef _check_postponed(self)

    @cython.final
    @cython.locals(only=DelayedOperation, operation=DelayedOperation, counted=Py_ssize_t)
    cdef Py_ssize_t _try_all(self, WatchShard shard, WatcherList watchers, int least) except -1

    @cython.final
    @cython.locals(completed=bint, ended=bint)
    cdef int _try_watching(
        self, WatchShard shard, WatcherList watchers, DelayedOperation operation
    ) except -1

    @cython.locals(shard=WatchShard, watchers=WatcherList)
    cpdef bint _try_one(self, key, DelayedOperation operation) except -1

    cpdef bint advance_clock(self, timeout_ms) except -1

    cpdef _reap(self, timeout_ms=*)

    cpdef _purge_if_due(self)

    @cython.final
    cdef bint _purge_due(self, long long unpurged) noexcept

    @cython.final
    cdef _request_purge(self)

    @cython.final
    cdef bint _cancel_contained(self, DelayedOperation operation) except -1

    @cython.final
    @cython.locals(operation=DelayedOperation, pending=bint)
    cdef _abandon_leaving(self, bint notify)

    @cython.locals(operation=DelayedOperation)
    cdef _cancel_all(self, OperationChain leaving, list cancelled)

    cpdef purge(self)

    @cython.locals(operation=DelayedOperation)
    cpdef _show_waiting(self)

    @cython.locals(operation=DelayedOperation)
    cpdef _hide_waiting(self)

    cdef _drop_ended(self)

    @cython.locals(waited_ms=longlong)
    cdef _operation_ended(self, DelayedOperation operation, int state, long long now_ms)

    cdef _callback_failed(self, DelayedOperation operation, error)

    cdef long long _now_or(self, long long otherwise_ms) except? -1

    @cython.locals(now_ms=longlong, late_ms=longlong, took_ms=longlong)
    cdef long long _callbacks_ran(self, DelayedOperation operation, long long began_ms) except? -2
