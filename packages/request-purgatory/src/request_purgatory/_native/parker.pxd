cdef class Parker:
    cdef readonly object _gate
    cdef object __weakref__

    cpdef bint park(self, timeout) except -1
    cpdef unpark(self)
