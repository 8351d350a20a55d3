from request_purgatory._native cimport primitives
from request_purgatory.clock cimport Clock

cdef object _monotonic
cdef dict _time_module
cdef object _standard_time


cdef class LoopClock(Clock):
    cdef object _loop

    cpdef long long read_ns(self) except? -1


cpdef bint is_foreign_thread(loop) except -1
