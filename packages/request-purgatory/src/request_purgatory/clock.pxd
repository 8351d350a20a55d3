from request_purgatory._native cimport primitives



cdef class Clock:
    cdef object __weakref__

    cpdef long long read_ns(self) except? -1


cdef class MonotonicClock(Clock):
    cpdef long long read_ns(self) except? -1


cdef class ManualClock(Clock):
    cdef object _lock
    cdef long long _now_ns
    cdef list _sleepers

    cpdef long long read_ns(self) except? -1
    cpdef _set_now_ns(self, long long now_ns)
