cimport cython

from request_purgatory._native cimport primitives


@cython.final
cdef class EndRecorder:
    cdef public long long now_us
    cdef public long long tries
    cdef public long long callbacks
    cdef Py_ssize_t _num_ended
    cdef bytearray _rows
    cdef bytearray _arrived_us
    cdef bytearray _deadlines_us
    cdef bytearray _ended_us
    cdef bytearray _expired

    @cython.locals(at=Py_ssize_t)
    cpdef record(self, Py_ssize_t row, long long arrived_us, long long deadline_us, bint expired)
