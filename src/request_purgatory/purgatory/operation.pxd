cimport cython

from request_purgatory._native cimport primitives, states
from request_purgatory.timer.task cimport TimerTask
from request_purgatory.purgatory.watch cimport Watch


cdef class Keeper:
    cdef public object end_listener

    cpdef _operation_ended(self, DelayedOperation operation, int state)
    cpdef _callback_failed(self, DelayedOperation operation, error)
    cpdef long long _now_ms(self) except? -1
    cpdef _callbacks_ran(self, DelayedOperation operation, long long began_ms)


cdef class DelayedOperation(TimerTask):
    cdef readonly Keeper _purgatory
    cdef readonly Watch _watches
    cdef readonly long long _entered_ms
    cdef readonly signed char _state
    cdef readonly signed char _try_state
    cdef readonly unsigned int _trier

    cpdef bint force_complete(self) except -1
    cpdef bint cancel(self) except -1
    cpdef _disown(self)
    cpdef bint _expire(self) except -1

    @cython.locals(purgatory=Keeper)
    cdef _answered(self)

    @cython.locals(purgatory=Keeper)
    cpdef bint _end(self, int state) except -1

    @cython.locals(purgatory=Keeper, completed=bint, again=bint, tries_for_itself=int, mark=cython.uint)
    cpdef bint _try(self) except -1

    @cython.locals(state=int)
    cdef int _enter(self, long long now_ms) except -1

    @cython.locals(new=bint)
    cdef bint _meet(self, Keeper purgatory) except -1
