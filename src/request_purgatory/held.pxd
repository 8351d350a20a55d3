from request_purgatory cimport states
from request_purgatory.operation cimport DelayedOperation


cdef class HeldCondition(DelayedOperation):
    cdef public object _until
    cdef public object _value
    cdef public object _error

    cpdef _answer(self, future)
