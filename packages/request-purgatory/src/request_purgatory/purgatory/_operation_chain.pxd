cimport cython

from request_purgatory._native cimport hiding, primitives
from request_purgatory.purgatory.operation cimport DelayedOperation


@cython.final
cdef class OperationChain:
    cdef public primitives.CoreLock lock
    cdef DelayedOperation _end
    cdef DelayedOperation _first
    cdef DelayedOperation _last
    cdef readonly Py_ssize_t length

    @cython.locals(new=bint)
    cpdef bint push(self, DelayedOperation operation) noexcept

    @cython.locals(first=DelayedOperation, following=DelayedOperation, found=bint)
    cpdef DelayedOperation pop(self)

    @cython.locals(operation=DelayedOperation)
    cpdef show_all(self)

    @cython.locals(operation=DelayedOperation)
    cpdef hide_all(self)
