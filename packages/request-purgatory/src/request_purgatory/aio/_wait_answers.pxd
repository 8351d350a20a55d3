from request_purgatory.purgatory.operation cimport DelayedOperation


cdef class WaitAnswers:
    cdef readonly dict futures
    cdef public bint is_closed
    cdef public object on_end
    cdef str _name

    cpdef answer(self, DelayedOperation operation)
