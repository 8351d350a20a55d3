cimport cython

from request_purgatory._native.parker cimport Parker


cdef class SleepingThread(Parker):
    cdef public long long until_ms
    cdef public bint in_use
    cdef public SleepingThread next


@cython.final
cdef class SleepingThreads:
    cdef SleepingThread _first
    cdef readonly long long earliest_ms

    @cython.locals(sleeper=SleepingThread)
    cdef SleepingThread take_free(self)

    cdef add(self, SleepingThread sleeper)

    cdef sleep_until(self, SleepingThread sleeper, long long until_ms)

    cdef bint release(self, SleepingThread sleeper) except -1

    @cython.locals(sleeper=SleepingThread, earliest_ms=longlong, until_ms=longlong)
    cdef _find_earliest(self)

    @cython.locals(sleeper=SleepingThread)
    cpdef wake_all(self)
