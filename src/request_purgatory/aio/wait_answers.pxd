from request_purgatory.purgatory.operation cimport DelayedOperation


cdef class WaitAnswers:
    cdef readonly dict futures
    cdef public bint is_closed
    cdef str _name
    cdef object _on_end

    cpdef answer(self, DelayedOperation operation)
