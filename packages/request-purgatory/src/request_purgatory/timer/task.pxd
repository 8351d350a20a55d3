cimport cython

from request_purgatory._native cimport linked_list, primitives
from request_purgatory._native.linked_list cimport Node
from request_purgatory.timer._bucket cimport Bucket

cpdef long long whole_ms(str name, object value) except? -1


cdef class TimerTask:
    # First, as `linked_list.h` expects.
    cdef Node _node
    cdef readonly long long _timer_delay_ms
    cdef public long long _timer_expiration_ms

    cpdef _abandon_in_child(self)
    cpdef bint cancel(self) except -1

    # Operations override it.
    cdef long long _run_from_timer(self, long long now_ms) except? -2

    @cython.final
    @cython.locals(pending=bint)
    cdef _init_task(self, str name, object delay_ms)

    @cython.final
    @cython.locals(bucket=Bucket)
    cdef bint _remove_from_timer(self) noexcept


cdef class TimerHandle(TimerTask):
    cdef readonly object callback
    cdef readonly tuple args

    cpdef bint cancel(self) except -1

    @cython.locals(args=tuple)
    cpdef run(self)

    @cython.final
    cdef void _drop_references(self) noexcept


cpdef append_to(Bucket bucket, TimerTask task)
cpdef remove_from(Bucket bucket, TimerTask task)
