cimport cython

from request_purgatory._native cimport linked_list
from request_purgatory.timer._bucket cimport Bucket, PendingTasks
from request_purgatory.timer._delay_queue cimport DelayQueue
from request_purgatory.timer.task cimport TimerTask


@cython.final
cdef class TimingWheel:
    cdef readonly long long tick_ms
    cdef readonly long long wheel_size
    cdef readonly long long interval_ms
    cdef readonly long long current_ms
    cdef readonly PendingTasks pending
    cdef readonly DelayQueue queue
    cdef readonly list buckets
    cdef readonly TimingWheel overflow_wheel

    @cython.locals(tick_ms=longlong)
    cpdef long long round_up(self, long long expiration_ms) noexcept

    @cython.locals(expiration_ms=longlong)
    cpdef bint add(self, TimerTask task) except -1

    @cython.locals(slot=longlong, tick_ms=longlong, bucket=Bucket)
    cdef bint link(self, TimerTask task, long long expiration_ms) except -1

    @cython.locals(wheel=TimingWheel)
    cpdef void advance(self, long long now_ms) noexcept

    @cython.locals(bucket=Bucket, task=TimerTask, wheel=TimingWheel)
    cdef go_back(self, long long now_ms, Bucket moved)

    cpdef TimingWheel make_overflow(self)

    cpdef set_overflow(self, TimingWheel overflow)
