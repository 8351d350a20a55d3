cimport cython

from request_purgatory.timer.bucket cimport Bucket


@cython.final
cdef class DelayQueue:
    cdef list _heap

    @cython.locals(heap=list)
    cpdef push(self, Bucket bucket, long long expiration_ms)

    @cython.locals(heap=list, bucket=Bucket)
    cpdef Bucket head(self)

    @cython.locals(bucket=Bucket)
    cpdef Bucket poll(self, long long now_ms)
