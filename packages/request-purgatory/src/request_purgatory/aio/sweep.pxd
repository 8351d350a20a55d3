cimport cython

from request_purgatory.purgatory.core cimport PurgatoryCore


cdef class Sweep:
    cdef PurgatoryCore _core
    cdef readonly object key
    cdef list _operations
    cdef Py_ssize_t _next
    cdef public bint begun
    cdef public bint again
    cdef public bint done
    cdef public bint in_vain
    cdef readonly Py_ssize_t depth
    cdef Py_ssize_t _depth_again

    cdef notify(self, Py_ssize_t depth)

    @cython.locals(size=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t)
    cpdef Py_ssize_t step(self, Py_ssize_t limit) except -1

    cdef _end_pass(self)


cdef class Sweeper:
    cdef PurgatoryCore _core
    cdef object _loop
    cdef Py_ssize_t _batch
    cdef readonly dict _sweeps
    cdef readonly object _turn
    cdef readonly object _rest
    cdef bint _sweeping
    cdef Py_ssize_t _depth
    cdef readonly dict _in_vain
    cdef bint _told_of_loop
    cdef long long _round_ms
    cdef readonly dict _posted

    @cython.locals(sweep=Sweep, count=Py_ssize_t, depth=Py_ssize_t)
    cpdef notify(self, key)

    cpdef post(self, key)

    cdef _ask_to_notify(self, key)

    cdef long long _now_ms(self) except? -1

    cdef bint _is_trusted(self, long long asked_ms) except -1

    cpdef clear(self)

    cdef _plan(self, key, Py_ssize_t depth)

    @cython.locals(sweep=Sweep, depth=Py_ssize_t)
    cdef _run(self, Py_ssize_t left)

    cdef _forget_loops(self)

    @cython.locals(times=Py_ssize_t)
    cdef bint _loops(self, key, Py_ssize_t depth) except -1

    @cython.locals(asked=bint)
    cdef _put_off(self)

    cdef _ask_for_round(self)
