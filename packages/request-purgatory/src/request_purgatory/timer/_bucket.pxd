cimport cython

from request_purgatory._native cimport linked_list, primitives
from request_purgatory._native.linked_list cimport List


@cython.final
cdef class PendingTasks:
    cdef readonly primitives.CoreLock lock
    cdef public Py_ssize_t count
    cdef public long long due_ms
    cdef public bint passed_over


@cython.final
cdef class Bucket:
    # First, as `linked_list.h` expects.
    cdef List _nodes
    cdef readonly PendingTasks pending
    cdef public long long expiration_ms

    @cython.locals(found=bint)
    cdef bint remove_if_linked(self, task) noexcept

    @cython.locals(pending=PendingTasks, found=Py_ssize_t)
    cpdef Py_ssize_t count_tasks(self, Py_ssize_t at_most) noexcept
