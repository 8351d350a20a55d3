cimport cython

from request_purgatory._native cimport linked_list, loops
from request_purgatory.purgatory.core cimport PurgatoryCore, checked_keys
from request_purgatory.purgatory.hold cimport new_hold, timeout_to_ms
from request_purgatory.purgatory.operation cimport DelayedOperation
from request_purgatory.timer.timer cimport SystemTimer


cdef class Alarm:
    cdef PurgatoryCore _core
    cdef SystemTimer _timer
    cdef object _loop
    cdef dict _named
    cdef object _context
    cdef object _batch
    cdef bint _has_strays
    cdef bint _rings
    cdef object __weakref__
    cdef readonly object handle
    cdef readonly double at_ms

    cpdef bint is_open(self) except -1

    cpdef hold(self, keys, until, timeout, deadline, not_yet, name)

    cpdef bint enter(self, DelayedOperation operation, keys) except -1

    cpdef bint renew(self, DelayedOperation operation, timeout) except -1

    cpdef set_first_for(self, DelayedOperation operation)

    cpdef set_for(self, DelayedOperation operation)

    @cython.locals(next_ms=longlong)
    cpdef set_next(self)

    cdef _set(self, double at_ms)

    cdef _insist(self)

    cdef _ring_on(self)


cpdef unique_keys(keys)
