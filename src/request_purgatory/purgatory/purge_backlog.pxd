cimport cython

from request_purgatory._native cimport primitives
from request_purgatory.purgatory.operation cimport DelayedOperation
from request_purgatory.purgatory.watch cimport Watch, WatcherList
from request_purgatory.purgatory.watch_table cimport WatcherLists


@cython.final
cdef class Unpurged:
    cdef list _shards
    cdef readonly list _operations
    cdef Py_ssize_t _most

    @cython.locals(operations=list, operation=DelayedOperation)
    cpdef begin(self)

    cpdef remember(self, DelayedOperation operation)

    @cython.locals(watch=Watch)
    cdef bint _is_watched(self, DelayedOperation operation) except -1

    @cython.locals(operations=list, still=list, operation=DelayedOperation)
    cdef _forget_met(self)

    @cython.locals(operations=list, operation=DelayedOperation, dropped=Py_ssize_t)
    cpdef Py_ssize_t drop(self) except -1

    @cython.locals(dropped=Py_ssize_t, watch=Watch, watchers=WatcherList, shard=WatcherLists)
    cpdef Py_ssize_t drop_watches(self, DelayedOperation operation) except -1
