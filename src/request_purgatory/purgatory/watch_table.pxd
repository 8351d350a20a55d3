cimport cython

from request_purgatory._native cimport primitives, states
from request_purgatory.purgatory.operation cimport DelayedOperation
from request_purgatory.purgatory.watch cimport Watch, WatcherList


@cython.final
cdef class WatchShard:
    cdef readonly int index
    cdef dict _lists
    cdef WatcherList _spare
    cdef primitives.CoreLock _lock

    @cython.locals(watch=Watch, watchers=WatcherList, lock=primitives.CoreLock)
    cpdef Watch watch(self, object key, DelayedOperation operation, Watch sibling)

    @cython.locals(made=WatcherList, watchers=WatcherList)
    cdef WatcherList _add_list(self, object key)

    cpdef primitives.CoreLock fork_lock(self)
    cpdef renew_lock(self)
    cpdef WatcherList get(self, object key)

    cpdef list lists(self)

    cpdef list watches(self, object key)

    @cython.locals(watch=Watch)
    cpdef list watches_of(self, WatcherList watchers)

    @cython.locals(watch=Watch)
    cpdef list operations_of(self, WatcherList watchers)

    @cython.locals(watch=Watch)
    cpdef Watch only_watch(self, WatcherList watchers)

    @cython.locals(operation=DelayedOperation)
    cpdef DelayedOperation operation_of(self, Watch watch)

    @cython.locals(watchers=WatcherList, lock=primitives.CoreLock)
    cpdef bint drop(self, Watch watch) except -1

    @cython.locals(watchers=WatcherList, watch=Watch, operation=DelayedOperation)
    cpdef list remove(self, object key)

    @cython.locals(watchers=WatcherList, watch=Watch, operation=DelayedOperation)
    cpdef list remove_all(self)


@cython.final
cdef class WatchTable:
    cdef readonly list shards
    cdef Py_hash_t _mask

    @cython.locals(shards=list)
    cpdef WatchShard shard_of(self, object key)

    @cython.locals(shard=WatchShard)
    cpdef watch(self, DelayedOperation operation, keys)

    @cython.locals(dropped=Py_ssize_t, watch=Watch, watchers=WatcherList, shard=WatchShard)
    cpdef Py_ssize_t drop_watches(self, DelayedOperation operation) except -1

    @cython.locals(watchers=WatcherList)
    cpdef Py_ssize_t num_watchers(self, object key) except -1
