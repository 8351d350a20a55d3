cimport cython

from request_purgatory._native cimport primitives


cdef class PutOff:
    cdef dict _interrupts

    @cython.final
    cdef _put_off(self, error)

    @cython.final
    cdef _raise_interrupt(self)
