cimport cython

from request_purgatory._native cimport hiding, primitives
from request_purgatory.purgatory.operation cimport DelayedOperation
from request_purgatory.purgatory._operation_chain cimport OperationChain
from request_purgatory.purgatory.watch_table cimport WatchTable


@cython.final
cdef class PurgeBacklog:
    cdef WatchTable _table
    cdef Py_ssize_t _max_length
    cdef Py_ssize_t _unseen
    cdef readonly OperationChain chain

    @cython.locals(operation=DelayedOperation)
    cpdef clear(self)

    cpdef add(self, DelayedOperation operation)

    @cython.locals(operation=DelayedOperation)
    cdef _drop_already_removed(self)

    @cython.locals(operation=DelayedOperation, dropped=Py_ssize_t, number=Py_ssize_t)
    cpdef Py_ssize_t purge(self) except -1
