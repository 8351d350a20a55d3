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
    cdef void link(self, TimerTask task) noexcept

    @cython.final
    @cython.locals(before=TimerTask, after=TimerTask)
    cdef void unlink(self, TimerTask task) noexcept

    @cython.final
    @cython.locals(pending=PendingTasks, found=bint)
    cdef bint remove_if_linked(self, TimerTask task) noexcept


cdef class TimerTask:
    cdef readonly long long timer_delay_ms
    cdef public long long timer_expiration_ms
    cdef readonly TaskList timer_list
    cdef readonly TimerTask timer_prev
    cdef readonly TimerTask timer_next

    cpdef abandon_in_child(self)
    cpdef bint cancel(self) except -1

    @cython.final
    cdef _init_task(self, str name, object delay_ms)

    @cython.final
    cdef require_init(self)

    @cython.final
    @cython.locals(bucket=TaskList)
    cdef bint remove_from_timer(self) noexcept


cdef class TimerHandle(TimerTask):
    cdef readonly object callback
    cdef readonly tuple args

    cpdef bint cancel(self) except -1

    @cython.locals(args=tuple)
    cpdef run(self)

    @cython.final
    cdef void _drop_references(self) noexcept
