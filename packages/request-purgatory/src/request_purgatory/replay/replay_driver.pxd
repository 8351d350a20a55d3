cimport cython

from request_purgatory.clock cimport ManualClock
from request_purgatory.purgatory._counters cimport PurgatoryCounters
from request_purgatory.replay.end_recorder cimport EndRecorder
from request_purgatory.replay.trace_operation cimport KeyState, KeyWait, TraceOperation
from request_purgatory.purgatory.purgatory cimport DelayedOperationPurgatory
from request_purgatory.timer.timer cimport SystemTimer


cdef class ReplayDriver:
    cdef readonly DelayedOperationPurgatory purgatory
    cdef readonly ManualClock clock
    cdef readonly EndRecorder ends
    cdef readonly long long arrivals
    cdef readonly long long events
    cdef long long _origin_us
    cdef object _interval_ms
    cdef object _timer
    cdef SystemTimer _wheel_timer
    cdef PurgatoryCounters _counters
    cdef long long _last_wake_ms
    cdef dict _keys
    cdef readonly Py_ssize_t peak_pending
    cdef readonly Py_ssize_t peak_queued
    cdef list _timeouts
    cdef list _watched
    cdef list _aggregates
    cdef list _thresholds
    cdef list _quantifiers

    @cython.locals(
        purgatory=DelayedOperationPurgatory,
        instant=longlong,
        row=Py_ssize_t,
        next_request=Py_ssize_t,
        next_event=Py_ssize_t,
        first_event=Py_ssize_t,
        num_requests=Py_ssize_t,
        num_events=Py_ssize_t,
    )
    cpdef play_sorted(
        self, requests, list request_rows, list arrived_us, list event_rows, list occurred_us, list keys, list amounts
    )

    @cython.locals(wake_ms=longlong, purgatory=DelayedOperationPurgatory)
    cpdef _run_reaper_before(self, long long instant_us)

    @cython.locals(interval_ms=longlong, limit_ms=longlong, first_ms=longlong, skipped=longlong)
    cpdef _skip_idle_wakes(self, long long instant_us)

    cpdef long long _next_reaper_wake_ms(self) except? -2
    cpdef _set_time(self, long long now_us)
    cpdef KeyState _key_state(self, key)

    @cython.locals(
        ends=EndRecorder,
        operation=TraceOperation,
        keys=list,
        quantifier=str,
        state=KeyState,
        pending=Py_ssize_t,
        queued=Py_ssize_t,
    )
    cpdef _arrive(self, Py_ssize_t row)
