cimport cython

from request_purgatory._native cimport primitives
from request_purgatory.clock cimport Clock
from request_purgatory.timer.bucket cimport Bucket
from request_purgatory.timer.delay_queue cimport DelayQueue
from request_purgatory.timer.sleepers cimport Sleeper, Sleepers
from request_purgatory.timer.task cimport PendingTasks, TaskList, TimerHandle, TimerTask
from request_purgatory.timer.wheel cimport TimingWheel


cdef class SystemTimer:
    cdef readonly str name
    cdef readonly Clock clock
    cdef public Py_ssize_t callback_errors
    cdef object _executor
    cdef bint _is_monotonic
    cdef readonly PendingTasks _pending
    cdef primitives.CoreLock _lock
    cdef readonly DelayQueue _queue
    cdef readonly TimingWheel _wheel
    cdef TimingWheel _top
    cdef readonly Bucket _due
    cdef readonly Sleepers _sleepers
    cdef bint _woken
    cdef bint _closed
    cdef readonly object _clock_thread
    cdef bint _unstarted
    cdef object __weakref__

    @cython.locals(bucket=TaskList)
    cpdef add(self, TimerTask task)

    @cython.locals(handle=TimerHandle, now_ns=longlong)
    cdef TimerHandle _call_later(self, object delay_ms, object callback, tuple args)

    @cython.locals(now_ms=longlong, expiration_ms=longlong)
    cpdef long long _next_due_ms(self) except? -2

    @cython.locals(bucket=Bucket)
    cdef long long _next_ms(self) except? -2

    @cython.locals(expiration_ms=longlong, wheel=TimingWheel, top=TimingWheel, too_late=bint, lock=primitives.CoreLock, bucket=Bucket, delay_ms=longlong)
    cdef _add(self, TimerTask task, long long start_ms)

    cdef _wake_sleepers(self)

    @cython.locals(lock=primitives.CoreLock, top=TimingWheel, overflow=TimingWheel)
    cdef _make_room(self, long long start_ms, long long expiration_ms)

    @cython.locals(wheel=TimingWheel, next_ms=longlong)
    cdef _catch_up(self, long long now_ms)

    @cython.locals(came_due=bint)
    cpdef advance_clock(self, timeout_ms)

    cpdef bint run_due(self, Py_ssize_t at_most) except -1

    @cython.locals(task=TimerTask)
    cdef _run_due(self, Py_ssize_t at_most)

    @cython.locals(lock=primitives.CoreLock, sleepers=Sleepers, sleeper=Sleeper, until_ms=longlong, give_up_ms=longlong, others=bint)
    cdef bint _wait(self, timeout_ms) except -1

    @cython.locals(now_ms=longlong, wheel=TimingWheel, due=Bucket, came_due=bint, bucket=Bucket, task=TimerTask, after=TimerTask)
    cdef bint _collect(self) except -1

    cdef TimerTask _take_due(self)

    cdef _start(self, TimerTask task)

    @cython.locals(handle=TimerHandle)
    cpdef _run(self, TimerTask task)

    cpdef wake(self)

    cpdef list _buckets(self)

    @cython.locals(bucket=Bucket)
    cpdef list _tasks(self)

    @cython.locals(bucket=Bucket, task=TimerTask)
    cdef list _drain(self)
