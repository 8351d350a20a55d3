cimport cython

from request_purgatory._native cimport states
from request_purgatory.replay.end_recorder cimport EndRecorder
from request_purgatory.replay.key_state cimport KeyState, KeyWait
from request_purgatory.purgatory.operation cimport DelayedOperation


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
