cimport cython

from request_purgatory._native cimport hiding
from request_purgatory.purgatory.operation cimport DelayedOperation
from request_purgatory.purgatory.watch_table cimport WatchTable


@cython.final
cdef class PurgeBacklog:
    cdef WatchTable _table
    cdef readonly list _operations
    cdef Py_ssize_t _max_length

    @cython.locals(operations=list, operation=DelayedOperation)
    cpdef clear(self)

    @cython.locals(operation=DelayedOperation)
    cpdef show_all(self)

    @cython.locals(operation=DelayedOperation)
    cpdef hide_all(self)

    cpdef add(self, DelayedOperation operation)

    @cython.locals(operations=list, kept=list, operation=DelayedOperation)
    cdef _drop_already_removed(self)

    @cython.locals(operations=list, operation=DelayedOperation, dropped=Py_ssize_t)
    cpdef Py_ssize_t purge(self) except -1
