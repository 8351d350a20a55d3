cimport cython

from request_purgatory._native cimport states
from request_purgatory.purgatory.hold cimport FutureOperation
from request_purgatory.purgatory.operation cimport OperationHost


cdef class _Listener:
    cdef readonly object future_ref
    cdef dict _operations
    cdef object __weakref__

    @cython.locals(operation=QuorumOperation)
    cdef enter(self, QuorumOperation operation)

    cdef leave(self, QuorumOperation operation)


cdef class QuorumOperation(FutureOperation):
    cdef tuple _futures
    cdef Py_ssize_t _needed
    cdef list _listeners
    cdef dict _times
    cdef list _new
    cdef Py_ssize_t _num_seen
    cdef bint _all_seen
    cdef set _succeeded
    cdef set _failed

    @cython.locals(listener=_Listener)
    cpdef watch_in(self, purgatory)

    @cython.locals(purgatory=OperationHost)
    cpdef future_done(self, future)

    @cython.locals(possible=Py_ssize_t)
    cdef bint _is_decided(self) except -1

    cdef _count(self, future)

    @cython.locals(times=Py_ssize_t)
    cdef Py_ssize_t _num(self, set ids) except -1

    @cython.locals(listener=_Listener)
    cdef _let_go(self)
