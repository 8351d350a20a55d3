from request_purgatory._native cimport primitives
from request_purgatory.purgatory.core cimport PurgatoryCore, checked_keys
from request_purgatory.purgatory.hold cimport new_hold, timeout_to_ms


cdef class DelayedOperationPurgatory(PurgatoryCore):
    pass
