cimport cython

from request_purgatory._native cimport loops, primitives
from request_purgatory.clock cimport Clock

cdef object _monotonic
cdef dict _time_module
cdef object _standard_time
cdef double _max_seconds


cdef class LoopClock(Clock):
    cdef object _loop

    @cython.locals(seconds=double)
    cpdef long long read_ns(self) except? -1


cpdef bint is_foreign_thread(loop) except -1
