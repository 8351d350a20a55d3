from request_purgatory cimport states
from request_purgatory.operation cimport DelayedOperation


cdef class HeldRequest(DelayedOperation):
    cdef object _until
    cdef object _value
    cdef object _error
    cdef public object waiting

    cdef _leave(self)
