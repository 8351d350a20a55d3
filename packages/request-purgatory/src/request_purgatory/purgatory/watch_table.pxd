cimport cython
from cpython.object cimport PyObject

from request_purgatory._native cimport primitives
from request_purgatory._native.linked_list cimport List, Node
from request_purgatory.purgatory.operation cimport DelayedOperation
from request_purgatory.purgatory._operation_chain cimport OperationChain


cdef PyObject *operation_at(Node *node) noexcept


@cython.final
cdef class WatcherList:
    cdef readonly object key
    cdef List nodes
    cdef Py_ssize_t _size
    cdef readonly int shard
    cdef readonly bint removed


@cython.final
cdef class WatchShard:
    cdef readonly int index
    cdef dict _lists
    cdef WatcherList _spare
    cdef object _errors
    cdef bint passed_over
    cdef Py_ssize_t _size
    cdef public primitives.CoreLock lock

    cpdef WatcherList get(self, object key)
    cpdef DelayedOperation only_operation(self, WatcherList watchers)
    cpdef list operations_of(self, WatcherList watchers)
    cpdef bint drop(self, WatcherList watchers, DelayedOperation operation) except -1
    cpdef list lists(self)
    cpdef Py_ssize_t remove_all(self, OperationChain removed) except -1

    cdef watch(self, object key, DelayedOperation operation, Node *node, size_t place)
    cdef WatcherList _add_list(self, object key)
    cdef WatcherList _next_list(self, Py_ssize_t *position)
    cdef bint drop_node(self, Node *node) except -1
    cdef bint _unlink(self, WatcherList watchers, Node *node) except -1


@cython.final
cdef class WatchTable:
    cdef readonly list shards
    cdef Py_hash_t _mask

    cpdef WatchShard shard_of(self, object key)
    cdef WatchShard _shard_of(self, str name, object key)
    cpdef watch(self, DelayedOperation operation, keys)
    cpdef Py_ssize_t drop_watches(self, DelayedOperation operation) except -1
    cpdef bint is_watched(self, DelayedOperation operation) noexcept
    cpdef Py_ssize_t num_watchers(self, object key) except -1
    cpdef remove_all(self, OperationChain removed)
    cdef pass_over(self, bint passed_over)

    cdef bint _drop_node(self, Node *node) except -1
