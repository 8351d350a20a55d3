cimport cython

from request_purgatory.timer.task cimport TimerTask


@cython.final
cdef class Watch:
    # A DelayedOperation; declared as its base because that module is made of this one.
    cdef readonly TimerTask operation
    cdef readonly WatcherList watchers
    cdef readonly Watch sibling
    cdef readonly Watch prev
    cdef readonly Watch next

    cdef void begin(self, TimerTask operation, Watch sibling) noexcept


@cython.final
cdef class WatcherList:
    cdef readonly object key
    cdef readonly Watch head
    cdef readonly Watch tail
    cdef readonly Py_ssize_t size
    cdef readonly int shard
    cdef public bint removed

    cdef void begin(self, object key, int shard) noexcept
    cdef void append(self, Watch watch) noexcept
    cdef void remove(self, Watch watch)
