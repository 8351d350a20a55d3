cimport cython

from request_purgatory._native cimport states
from request_purgatory.clock cimport ManualClock
from request_purgatory.metrics cimport PurgatoryCounters
from request_purgatory.purgatory.operation cimport DelayedOperation
from request_purgatory.purgatory.purgatory cimport DelayedOperationPurgatory
from request_purgatory.timer.timer cimport SystemTimer


cdef class KeyState:
    cdef double _count
    cdef double _total
    cdef double _high
    cdef double _count_before
    cdef double _total_before
    cdef long long _instant_us

    cpdef add(self, double amount, long long now_us)
    cpdef double value(self, int aggregate) except? -1
    cpdef double baseline(self, int aggregate, long long now_us) except? -1


@cython.final
cdef class KeyWait:
    cdef readonly KeyState key
    cdef readonly double baseline
    cdef readonly KeyWait next


cdef class TraceOperation(DelayedOperation):
    cdef HostDriver _host
    cdef readonly Py_ssize_t row
    cdef readonly long long arrived_us
    cdef readonly long long deadline_us
    cdef int aggregate
    cdef bint any_key
    cdef double threshold
    cdef KeyWait waits

    @cython.locals(wait=KeyWait, last=KeyWait)
    cpdef bint _is_satisfied(self) except -1


cdef class HostDriver:
    cdef readonly DelayedOperationPurgatory purgatory
    cdef readonly ManualClock clock
    cdef readonly long long now_us
    cdef public long long tries
    cdef public long long callbacks
    cdef readonly long long arrivals
    cdef readonly long long events
    cdef long long _origin_us
    cdef object _interval_ms
    cdef object _timer
    cdef SystemTimer _wheel_timer
    cdef PurgatoryCounters _counters
    cdef Py_ssize_t _num_ended
    cdef tuple _columns
    cdef long long[::1] _rows
    cdef long long[::1] _arrived_us
    cdef long long[::1] _deadlines_us
    cdef long long[::1] _ended_us
    cdef long long[::1] _expired
    cdef long long _last_wake_ms
    cdef dict _keys
    cdef Py_ssize_t _peak_pending
    cdef Py_ssize_t _peak_queued
    cdef public Py_ssize_t _samples
    cdef public dict _bucket_usage
    cdef list _timeouts
    cdef list _watched
    cdef list _aggregates
    cdef list _thresholds
    cdef list _quantifiers

    @cython.locals(at=Py_ssize_t)
    cpdef record_end(self, TraceOperation operation, bint expired)

    cpdef play(self, requests, events)
    cpdef _set_requests(self, requests)

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
    cpdef _play_sorted(
        self, list request_rows, list arrived_us, list event_rows, list occurred_us, list keys, list amounts
    )

    @cython.locals(wake_ms=longlong, purgatory=DelayedOperationPurgatory)
    cpdef _run_reaper_before(self, long long instant_us)

    cpdef long long _next_reaper_wake_ms(self) except? -2
    cpdef _set_time(self, long long now_us)
    cpdef KeyState _key_state(self, key)

    @cython.locals(operation=TraceOperation, state=KeyState, pending=Py_ssize_t, queued=Py_ssize_t)
    cpdef _arrive(self, Py_ssize_t row)
