from request_purgatory cimport native

cpdef long long whole_ms(str name, object value) except? -1


cdef class TaskList:
    cdef bint take_out(self, TimerTask task) except -1


cdef class TimerTask:
    cdef long long _delay_ms
    cdef public long long _expiration_ms
    cdef readonly TaskList _bucket
    cdef readonly TimerTask _prev
    cdef readonly TimerTask _next

    cpdef bint cancel(self) except -1
    cdef bint _unlink(self) except -1


cdef class TimerHandle(TimerTask):
    cdef readonly object _callback
    cdef readonly tuple _args

    cpdef bint cancel(self) except -1
    cdef _begin(self, object delay_ms, object callback, tuple args)
    cdef void _forget(self) noexcept
