from request_purgatory.clock cimport Clock


cdef class LoopClock(Clock):
    cdef object _loop

    cpdef long long read_ns(self) except? -1


cpdef bint is_foreign_thread(loop) except -1
