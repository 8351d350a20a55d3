cimport cython

from request_purgatory._native cimport primitives

cpdef long long whole_ms(str name, object value) except? -1


@cython.final
cdef class PendingTasks:
    cdef readonly primitives.CoreLock lock
    cdef public Py_ssize_t count


cdef class TaskList:
    cdef readonly PendingTasks pending
    cdef readonly TimerTask head
    cdef readonly TimerTask tail

    @cython.final
    @cython.locals(tail=TimerTask)
    cdef void _link(self, TimerTask task) noexcept

    @cython.final
    @cython.locals(before=TimerTask, after=TimerTask)
    cdef void _unlink(self, TimerTask task) noexcept

    @cython.final
    @cython.locals(pending=PendingTasks, found=bint)
    cdef bint take_out(self, TimerTask task) noexcept


cdef class TimerTask:
    cdef long long _delay_ms
    cdef public long long _expiration_ms
    cdef readonly TaskList _bucket
    cdef readonly TimerTask _prev
    cdef readonly TimerTask _next

    cpdef _disown(self)
    cpdef bint cancel(self) except -1

    @cython.final
    cdef _begin(self, object delay_ms)

    @cython.final
    cdef _require_init(self)

    @cython.final
    @cython.locals(bucket=TaskList)
    cdef bint _unlink(self) noexcept


cdef class TimerHandle(TimerTask):
    cdef readonly object _callback
    cdef readonly tuple _args

    cpdef bint cancel(self) except -1

    @cython.final
    @cython.locals(args=tuple)
    cdef _fire(self)

    @cython.final
    cdef void _forget(self) noexcept
