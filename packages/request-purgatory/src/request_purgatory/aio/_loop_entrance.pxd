cimport cython

from request_purgatory._native cimport primitives
from request_purgatory.aio._alarm cimport Alarm
from request_purgatory.aio.sweep cimport Sweeper


cdef class LoopEntrance:
    cdef public Alarm _alarm
    cdef public Sweeper _sweeper

    @cython.final
    cdef Alarm _opened(self)
