cimport cython

from request_purgatory._native cimport primitives
from request_purgatory.purgatory.watch cimport Watch, WatcherList
from request_purgatory.timer.task cimport TimerTask


@cython.final
cdef class WatcherLists:
    cdef readonly int index
    cdef dict _lists
    cdef primitives.CoreLock _lock

    @cython.locals(watch=Watch, watchers=WatcherList, lock=primitives.CoreLock)
    cpdef Watch watch(self, object key, TimerTask operation, Watch sibling)

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
    cpdef Watch first(self, WatcherList watchers)

    @cython.locals(operation=TimerTask)
    cpdef TimerTask operation_of(self, Watch watch)

    @cython.locals(watchers=WatcherList, lock=primitives.CoreLock)
    cpdef bint drop(self, Watch watch) except -1

    @cython.locals(watchers=WatcherList, watch=Watch, operation=TimerTask)
    cpdef list remove(self, object key)

    @cython.locals(watchers=WatcherList, watch=Watch, operation=TimerTask)
    cpdef list remove_all(self)
