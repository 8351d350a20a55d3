from request_purgatory._native cimport hiding
from request_purgatory.purgatory.operation cimport DelayedOperation


cdef class WaitAnswers:
    cdef readonly dict futures
    cdef public bint is_closed
    cdef public object on_end
    cdef public object alarm
    cdef str _name
    cdef object __weakref__

    cpdef answer(self, DelayedOperation operation)

    cpdef _show_waiting(self)
