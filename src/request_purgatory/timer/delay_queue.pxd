cimport cython

from request_purgatory.timer.bucket cimport Bucket


@cython.final
cdef class DelayQueue:
    cdef list _heap
    cdef Py_ssize_t _length

    @cython.locals(heap=list, place=Py_ssize_t, above=Py_ssize_t, parent=Bucket)
    cpdef push(self, Bucket bucket, long long expiration_ms)

    @cython.locals(heap=list, length=Py_ssize_t, place=Py_ssize_t, below=Py_ssize_t, last=Bucket, child=Bucket, other=Bucket,
                   expiration_ms=longlong)
    cdef _drop_first(self)

    @cython.locals(bucket=Bucket)
    cpdef Bucket head(self)

    @cython.locals(bucket=Bucket)
    cpdef Bucket poll(self, long long now_ms)
