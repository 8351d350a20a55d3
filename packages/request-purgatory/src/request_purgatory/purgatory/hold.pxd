cimport cython

from request_purgatory._native cimport primitives, states
from request_purgatory.purgatory.operation cimport DelayedOperation, OperationHost

@cython.locals(seconds=double)
cpdef timeout_to_ms(timeout)


cdef class FutureOperation(DelayedOperation):
    cdef readonly object future

    cpdef detach(self)


cdef class HoldOperation(FutureOperation):
    cdef public object _until
    cdef public object _value
    cdef object _not_yet
    cdef public object _error

    cdef _timeout_error(self)
