cimport cython

from request_purgatory._native cimport hiding, primitives, states
from request_purgatory.purgatory._counters cimport PurgatoryCounters
from request_purgatory.purgatory.operation cimport DelayedOperation, OperationHost

cdef double _seconds_of(span) except? -1.0

@cython.locals(seconds=double)
cpdef timeout_to_ms(timeout, name=*)

@cython.locals(seconds=double)
cpdef span_to_ms(span, name)


cdef class FutureOperation(DelayedOperation):
    cdef readonly object future
    cdef public object _value
    cdef public object _error

    cdef _init_answer(self, timeout_ms, future)

    cdef _notify_end(self)

    @cython.locals(tries=int)
    cdef _end_future(self)

    cdef _make_answer(self)

    cdef _let_go(self)

    cdef void _hide(self) noexcept

    cdef void _show(self) noexcept


cdef class HoldOperation(FutureOperation):
    cdef public object _until
    cdef object _not_yet
    cdef PurgatoryCounters _label

    cdef _init_hold(self, until, timeout_ms, future, not_yet)

    cdef _timeout_error(self)

    cpdef _set_label(self, PurgatoryCounters label)

    @cython.locals(waited_ms=longlong, purgatory=OperationHost)
    cdef _count_end(self)

    @cython.locals(is_first=bint)
    cdef _let_go(self)


@cython.locals(operation=HoldOperation)
cpdef HoldOperation new_hold(until, timeout_ms, future, not_yet)

cpdef wrap_error(error)
