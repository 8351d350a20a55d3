cimport cython

from request_purgatory._native.parker cimport Parker


cdef class Sleeper(Parker):
    cdef public long long until_ms
    cdef public bint is_taken
    cdef public Sleeper older


@cython.final
cdef class Sleepers:
    cdef Sleeper _newest
    cdef readonly long long first_ms

    @cython.locals(sleeper=Sleeper)
    cdef Sleeper take(self)

    cdef join(self, Sleeper sleeper)

    cdef enter(self, Sleeper sleeper, long long until_ms)

    cdef bint leave(self, Sleeper sleeper) except -1

    cdef expect(self, long long until_ms)

    @cython.locals(sleeper=Sleeper, first_ms=longlong, until_ms=longlong)
    cdef _find_first(self)

    @cython.locals(sleeper=Sleeper)
    cpdef wake(self)
