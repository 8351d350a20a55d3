from request_purgatory._native cimport states
from request_purgatory.purgatory.operation cimport DelayedOperation


cdef class HeldCondition(DelayedOperation):
    cdef public object _until
    cdef public object _value
    cdef public object _error

    cpdef _answer(self, future)
