cimport cython

from request_purgatory._native cimport states
from request_purgatory.replay.end_recorder cimport EndRecorder
from request_purgatory.purgatory.operation cimport DelayedOperation


cdef class KeyState:
    cdef double _count
    cdef double _total
    cdef double _high
    cdef double _count_before
    cdef double _total_before
    cdef long long _instant_us

    cpdef add(self, double amount, long long now_us)
    cpdef double value(self, int aggregate) except? -1
    cpdef double baseline(self, int aggregate, long long now_us) except? -1


@cython.final
cdef class KeyWait:
    cdef readonly KeyState key
    cdef readonly double baseline
    cdef readonly KeyWait next


cdef class TraceOperation(DelayedOperation):
    cdef EndRecorder _ends
    cdef readonly Py_ssize_t row
    cdef readonly long long arrived_us
    cdef readonly long long deadline_us
    cdef int aggregate
    cdef Py_ssize_t needed
    cdef double threshold
    cdef KeyWait waits

    @cython.locals(wait=KeyWait, last=KeyWait)
    cpdef bint _is_satisfied(self) except -1
