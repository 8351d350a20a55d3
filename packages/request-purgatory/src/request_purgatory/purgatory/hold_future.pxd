from request_purgatory._native cimport primitives
from request_purgatory.purgatory.operation cimport DelayedOperation

cdef _keep_first(future, DelayedOperation operation, name, new)

cdef bint _has_ended(future, DelayedOperation operation) except -1

cdef int _change(future, DelayedOperation operation, state, value, error, bint held) except -2
