cimport cython

from request_purgatory._native cimport hiding, linked_list, primitives
from request_purgatory.clock cimport Clock
from request_purgatory.timer._bucket cimport Bucket, PendingTasks
from request_purgatory.timer._delay_queue cimport DelayQueue
from request_purgatory.timer._timer_core cimport TimerCore
from request_purgatory.timer.task cimport TimerHandle, TimerTask
from request_purgatory.timer.wheel cimport TimingWheel


cdef class SystemTimer(TimerCore):
    cdef object _executor
    cdef bint _is_monotonic
    cdef readonly PendingTasks _pending
    cdef readonly DelayQueue _queue
    cdef readonly TimingWheel _wheel
    cdef readonly TimingWheel _coarsest
    cdef readonly Bucket _due
    cdef readonly object _clock_thread
    cdef bint _starts_with_first_task

    cpdef add(self, TimerTask task)

    @cython.final
    @cython.locals(expiration_ms=longlong, next_ms=longlong, now_ms=longlong)
    cdef _add_passed(self, TimerTask task)

    @cython.final
    @cython.locals(
        moved=Bucket,
        is_waiting=bint,
        top=TimingWheel,
        overflow=TimingWheel,
    )
    cdef _go_back(
        self, TimerTask task, long long expiration_ms, long long next_ms, long long now_ms
    )

    @cython.final
    @cython.locals(bucket=Bucket)
    cdef bint _take_out(self, TimerTask task) noexcept

    @cython.locals(closed=bint, mine=bint)
    cdef _run_at_once(self, TimerTask task)

    @cython.locals(handle=TimerHandle, now_ns=longlong)
    cdef TimerHandle _call_later_ms(self, object delay_ms, object callback, tuple args)

    cdef long long _next_due_ms(self) except? -2

    @cython.locals(bucket=Bucket)
    cdef long long _next_bucket_ms(self) except? -2

    @cython.locals(expiration_ms=longlong, wakes_too_late=bint, delay_ms=longlong)
    cdef _add_from(self, TimerTask task, long long start_ms)

    cdef _wake_sleepers(self)

    @cython.locals(lock=primitives.CoreLock, top=TimingWheel, overflow=TimingWheel)
    cdef _add_overflow_wheels(self, long long start_ms, long long expiration_ms)

    @cython.locals(wheel=TimingWheel, next_ms=longlong)
    cdef _skip_idle_time(self, long long now_ms)

    cpdef bint run_due(self, object at_most) except -1

    @cython.locals(
        now_ms=longlong,
        wheel=TimingWheel,
        due=Bucket,
        came_due=bint,
        moved=Py_ssize_t,
        bucket=Bucket,
        task=TimerTask,
    )
    cdef bint _collect_due(self) except -1

    cdef TimerTask _pop_due(self)

    cdef long long _execute(self, TimerTask task, long long now_ms) except? -2

    @cython.final
    cdef _submit(self, TimerTask task)

    cpdef _run_submission(self, submission)

    cdef _drop_task(self, TimerTask task)

    cdef _stop_clock_thread(self)

    cpdef list _all_buckets(self)

    @cython.locals(bucket=Bucket)
    cpdef list _pending_tasks(self)

    @cython.locals(
        bucket=Bucket,
        task=TimerTask,
        handle=TimerHandle,
        drained=list,
        count=Py_ssize_t,
        found=Py_ssize_t,
    )
    cdef list _drain(self)
