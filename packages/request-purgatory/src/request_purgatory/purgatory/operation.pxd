cimport cython

from request_purgatory._native cimport hiding, primitives, states
from request_purgatory._native.linked_list cimport Node
from request_purgatory.purgatory._put_off cimport PutOff
from request_purgatory.timer.task cimport TimerTask


cdef enum:
    NODES_INSIDE = 3


cdef class OperationHost(PutOff):
    cdef readonly str name
    cdef public object on_watch
    cdef public object on_try
    cdef public object on_end

    cpdef bint try_complete_else_watch(self, DelayedOperation operation, watch_keys) except -1
    cpdef Py_ssize_t check_and_complete(self, key) except -1
    cpdef Py_ssize_t _check(self, key, bint counts_ends) except -1
    # In C only: the look for an override would make an object, and an end finds no memory for one.
    cdef _operation_ended(self, DelayedOperation operation, int state, long long now_ms)
    cdef _callback_failed(self, DelayedOperation operation, error)
    cdef long long _now_or(self, long long otherwise_ms) except? -1
    cdef _ran_early(self, DelayedOperation operation)
    cdef long long _callbacks_ran(self, DelayedOperation operation, long long began_ms) except? -2


cdef class DelayedOperation(TimerTask):
    cdef readonly OperationHost _purgatory
    # Belongs to `_operation_chain.py`; None while the operation is in no chain.
    cdef DelayedOperation _next_in_chain
    # Its places in watcher lists, which belong to `watch_table.pyx`. The bytes are the memory of
    # those that do not fit inside.
    cdef Node _nodes[NODES_INSIDE]
    cdef bytes _further
    cdef readonly long long _entered_ms
    cdef readonly signed char _state
    cdef readonly signed char _try_state
    # In the two bytes that would be padding.
    cdef readonly unsigned short _tries
    cdef readonly unsigned int _trier

    @cython.final
    @cython.locals(in_use=bint)
    cdef _init_operation(self, object timeout_ms)

    @cython.locals(borrowed=bint, ended=bint)
    cpdef bint force_complete(self) except -1
    cpdef bint cancel(self) except -1
    cpdef _abandon_in_child(self)

    @cython.locals(purgatory=OperationHost, is_over=bint)
    cdef long long _run_from_timer(self, long long now_ms) except? -2

    @cython.final
    @cython.locals(borrowed=bint, ended=bint)
    cdef bint _run_out(self, long long now_ms) except -1

    @cython.final
    @cython.locals(borrowed=bint, ended=bint)
    cdef bint _cancel(self) except -1

    @cython.final
    cdef bint _has_on_try(self) noexcept

    @cython.final
    @cython.locals(purgatory=OperationHost)
    cdef _notify_try(self)

    # Operations with a future override it.
    @cython.locals(purgatory=OperationHost)
    cdef _notify_end(self)

    @cython.final
    @cython.locals(is_counted=bint)
    cdef bint _end(self, int state, long long now_ms) except -1

    @cython.final
    @cython.locals(pending=bint)
    cdef bint _renew(self, long long now_ms, long long timeout_ms) noexcept

    @cython.final
    cdef void _count_try(self) noexcept

    @cython.final
    @cython.locals(answer=int, alone=bint, mark=cython.uint)
    cdef bint _try(self) except -1

    @cython.final
    @cython.locals(purgatory=OperationHost, completed=bint, again=bint, self_notifications=int)
    cdef bint _end_tries(self, int answer, leaving) except -1

    @cython.final
    cdef bint _try_with_hook(self) except -1

    @cython.final
    @cython.locals(state=int)
    cdef int _mark_watched(self, long long now_ms) noexcept

    # Operations with a future override both.
    cdef void _hide(self) noexcept

    cdef void _show(self) noexcept

    @cython.final
    cdef void _lock_fields(self) noexcept

    @cython.final
    cdef void _unlock_fields(self) noexcept

    @cython.final
    @cython.locals(new=bint)
    cdef bint _attach(self, OperationHost purgatory) noexcept
