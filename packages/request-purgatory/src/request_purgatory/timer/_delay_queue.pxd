cimport cython

from request_purgatory._native cimport linked_list
from request_purgatory.timer._bucket cimport Bucket


@cython.final
cdef class DelayQueue:
    cdef readonly list _heap
    cdef readonly Py_ssize_t _length

    @cython.locals(heap=list, index=Py_ssize_t, parent_index=Py_ssize_t, parent=Bucket)
    cpdef push(self, Bucket bucket, long long expiration_ms)

    @cython.locals(
        heap=list,
        length=Py_ssize_t,
        index=Py_ssize_t,
        child_index=Py_ssize_t,
        last=Bucket,
        child=Bucket,
        sibling=Bucket,
        expiration_ms=longlong,
    )
    cdef _pop_first(self)

    @cython.locals(bucket=Bucket)
    cpdef Bucket head(self)

    @cython.locals(bucket=Bucket)
    cpdef Bucket poll(self, long long now_ms)
