cimport cython


@cython.final
cdef class EndRecorder:
    cdef public long long now_us
    cdef public long long tries
    cdef public long long callbacks
    cdef Py_ssize_t _num_ended
    cdef tuple _columns
    cdef long long[::1] _rows
    cdef long long[::1] _arrived_us
    cdef long long[::1] _deadlines_us
    cdef long long[::1] _ended_us
    cdef long long[::1] _expired

    @cython.locals(at=Py_ssize_t)
    cpdef record(self, Py_ssize_t row, long long arrived_us, long long deadline_us, bint expired)
