cimport cython

from request_purgatory cimport native
from request_purgatory.parker cimport Parker


cdef class Sleeper(Parker):
    cdef public long long until_ms


@cython.final
cdef class Sleepers:
    cdef list _asleep
    cdef Sleeper _spare
    cdef readonly long long first_ms

    @cython.locals(spare=Sleeper)
    cdef Sleeper take_spare(self)

    cdef enter(self, Sleeper sleeper, long long until_ms)

    cdef bint leave(self, Sleeper sleeper) except -1

    cdef expect(self, long long until_ms)

    @cython.locals(sleeper=Sleeper, first_ms=longlong)
    cdef _find_first(self)

    @cython.locals(sleeper=Sleeper)
    cpdef wake(self)
