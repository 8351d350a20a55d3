from request_purgatory._native cimport primitives
from request_purgatory.purgatory.core cimport PurgatoryCore


cdef class DelayedOperationPurgatory(PurgatoryCore):
    pass
