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

    @cython.locals(listener=_Listener)
    cpdef watch_in(self, purgatory)

    @cython.locals(purgatory=OperationHost)
    cpdef future_done(self)

    @cython.locals(succeeded=Py_ssize_t, failed=Py_ssize_t)
    cdef bint _is_decided(self) except -1

    @cython.locals(listener=_Listener)
    cdef _let_go(self)
