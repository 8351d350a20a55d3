cimport cython


cdef class KeyState:
    cdef double _count
    cdef double _total
    cdef double _high
    cdef double _count_before
    cdef double _total_before
    cdef long long _instant_us

    cpdef add(self, double amount, long long now_us)
    cpdef double value(self, int aggregate) except? -1
    cpdef double baseline(self, int aggregate, long long now_us) except? -1


@cython.final
cdef class KeyWait:
    cdef readonly KeyState key
    cdef readonly double baseline
    cdef readonly KeyWait next
