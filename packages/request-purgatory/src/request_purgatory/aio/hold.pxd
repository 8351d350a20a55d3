# Only what the module calls in C: its class is a Python class.
cimport cython

from request_purgatory._native cimport loops, primitives
from request_purgatory.aio.loop_clock cimport is_foreign_thread
from request_purgatory.purgatory.hold cimport wrap_error

cdef object _done
cdef object _get_loop
cdef object _set_result
cdef object _set_exception


@cython.locals(attempts=int)
cpdef answer_here(future, value, error)
