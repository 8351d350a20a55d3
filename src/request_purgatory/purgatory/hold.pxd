from request_purgatory._native cimport states
from request_purgatory.purgatory.operation cimport DelayedOperation, OperationHost


cdef class HoldOperation(DelayedOperation):
    cdef readonly object future
    cdef public object _until
    cdef public object _value
    cdef object _not_yet
    cdef public object _error

    cdef _detach(self)
