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

    cpdef take_in(self, double amount, long long now_us)
    cpdef double now(self, int aggregate) except? -1
    cpdef double since(self, int aggregate, long long now_us) except? -1


@cython.final
cdef class Wait:
    cdef readonly KeyState _key
    cdef readonly double _since
    cdef readonly Wait _next


cdef class TraceOperation(DelayedOperation):
    cdef HostDriver _host
    cdef readonly Py_ssize_t row
    cdef readonly long long arrived_us
    cdef readonly long long deadline_us
    cdef int _aggregate
    cdef bint _any
    cdef double _threshold
    cdef Wait _waits

    @cython.locals(wait=Wait, last=Wait)
    cpdef bint _holds(self) except -1


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
    cdef Py_ssize_t _ended
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
    cdef public dict _used
    cdef list _timeouts
    cdef list _watched
    cdef list _aggregates
    cdef list _thresholds
    cdef list _quantifiers

    @cython.locals(at=Py_ssize_t)
    cpdef _note(self, TraceOperation operation, bint expired)

    cpdef play(self, requests, events)
    cpdef _bind(self, requests)

    @cython.locals(
        purgatory=DelayedOperationPurgatory,
        instant=longlong,
        row=Py_ssize_t,
        next_arrival=Py_ssize_t,
        next_event=Py_ssize_t,
        first_event=Py_ssize_t,
        arrivals_left=Py_ssize_t,
        events_left=Py_ssize_t,
    )
    cpdef _play(self, list arrivals, list arrived, list happenings, list occurred, list keys, list amounts)

    @cython.locals(wake_ms=longlong, purgatory=DelayedOperationPurgatory)
    cpdef _expire_before(self, long long instant_us)

    cpdef long long _reaper_wakes_ms(self) except? -2
    cpdef _move_to(self, long long now_us)
    cpdef KeyState _key(self, key)

    @cython.locals(operation=TraceOperation, state=KeyState, pending=Py_ssize_t, queued=Py_ssize_t)
    cpdef _arrive(self, Py_ssize_t row)
