"""Replay one host's trace through a real purgatory on virtual time, in one or several parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from request_purgatory.clock import ManualClock
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.replay.end_recorder import EndRecorder
from request_purgatory.replay.trace_operation import AGGREGATES, KeyState, KeyWait, TraceOperation

#: `sample` is called once in this many arrivals.
SAMPLE_EVERY = 1024

#: A time after every instant of a trace.
_END_OF_TIME_US = 2**63 - 1
_AGGREGATES = {name: number for number, name in enumerate(AGGREGATES)}


class ReplayDriver:
    """Replays one host's trace through one purgatory, which has no thread of its own.

    Time advances from instant to instant of the trace, in microseconds. Each instant has these
    steps:

    1. The reaper runs for all earlier times at which it would have woken up, so requests that are
       due before the instant expire.
    2. The instant's events are added to the state of their keys.
    3. The instant's requests arrive, and are tried against this state.
    4. The keys of the instant's events are checked, which completes requests that wait for them.

    Requests that are due at this very instant expire after it, as an event at the deadline still
    completes.

    The reaper of the timing-wheel design wakes up whenever its timer or a purge is due. That of the
    0.8 design wakes up when its timer is due and when its interval has passed. Its wakes without
    work are passed over, so that long timeouts take no longer than short ones.

    Attributes:
        purgatory: The purgatory.
        clock: The clock of its timer; it starts at 0 at the trace's first whole millisecond.
        ends: The requests that ended in the latest call of `play_sorted` or `finish`, and the
            current time of the trace.
        arrivals: Number of requests so far.
        events: Number of events in the parts so far.
        peak_pending: The most requests that were pending at a time.
        peak_queued: The most entries of the timer at a time.
    """

    def __init__(
        self, purgatory: DelayedOperationPurgatory, clock: ManualClock, first_us: int
    ) -> None:
        """Prepare a replay by a purgatory without a reaper thread, and the clock of its timer.

        `first_us` is the time of the trace's first request or event, or an earlier one, in
        microseconds since the epoch.
        """
        self._origin_us = first_us // 1000 * 1000
        self.clock = clock
        self.purgatory = purgatory
        self.ends = EndRecorder(self._origin_us)
        self.arrivals = 0
        self.events = 0
        # None where the reaper sleeps until there is work.
        self._interval_ms: int | None = getattr(purgatory, "reap_interval_ms", None)
        self._timer = purgatory.timer
        # Internals of the purgatory that are read at every instant.
        self._wheel_timer = purgatory._wheel_timer
        self._counters = purgatory._counters
        self._keys: dict[str, KeyState] = {}
        self.peak_pending = 0
        self.peak_queued = 0
        self._last_wake_ms = 0

    def play_sorted(
        self,
        requests: Any,
        request_rows: list[int],
        arrived_us: list[int],
        event_rows: list[int],
        occurred_us: list[int],
        keys: list[str],
        amounts: list[float],
    ) -> None:
        """Replay the next part of the trace.

        A part has everything that happens in an interval of time, and nothing of the interval's
        instants may be in another part.

        Args:
            requests: Has columns by row, as lists: `timeouts_ms`; `watch_keys`, a list for each
                request; `aggregates`, names of `trace_operation.AGGREGATES`; `thresholds`, the
                values that these must reach; `quantifiers`: "all", "any", or the number of keys
                that must be satisfied, as text.
            request_rows: Rows of the requests, in order of arrival.
            arrived_us: The arrivals of these rows.
            event_rows: Rows of the events, in order of time.
            occurred_us: The times of these rows.
            keys: The events' keys, by row.
            amounts: The events' amounts, by row.
        """
        self._timeouts = requests.timeouts_ms
        self._watched = requests.watch_keys
        # Comparing numbers is faster than comparing names.
        self._aggregates = [_AGGREGATES[name] for name in requests.aggregates]
        self._thresholds = requests.thresholds
        self._quantifiers = requests.quantifiers
        self.ends.allocate(self.purgatory.num_delayed + len(request_rows))
        purgatory = self.purgatory
        num_requests, num_events = len(request_rows), len(event_rows)
        next_request = next_event = 0
        while next_request < num_requests or next_event < num_events:
            instant = _END_OF_TIME_US
            if next_request < num_requests:
                instant = arrived_us[next_request]
            if next_event < num_events and occurred_us[next_event] < instant:
                instant = occurred_us[next_event]
            self._run_reaper_before(instant)
            self._set_time(instant)
            first_event = next_event
            while next_event < num_events and occurred_us[next_event] == instant:
                row = event_rows[next_event]
                self._key_state(keys[row]).add(amounts[row], instant)
                next_event += 1
            while next_request < num_requests and arrived_us[next_request] == instant:
                self._arrive(request_rows[next_request])
                next_request += 1
            while first_event < next_event:
                purgatory.check_and_complete(keys[event_rows[first_event]])
                first_event += 1
            if self._interval_ms is None and purgatory._purge_due(
                self._counters.unpurged_unlocked()
            ):
                purgatory.advance_clock(0)
        self.events += num_events

    def finish(self) -> None:
        """Advance the time after the last part until every request has ended."""
        self.ends.allocate(self.purgatory.num_delayed)
        self._run_reaper_before(_END_OF_TIME_US)
        pending = self.purgatory.close()
        if pending:
            raise RuntimeError(
                f"{len(pending)} requests are pending after the last timeout, which is an error "
                "of request-purgatory; please report it"
            )

    def forget(self, keys: Iterable[str]) -> None:
        """Drop the state of keys that no later request watches, to free its memory."""
        for key in keys:
            self._keys.pop(key, None)

    def _run_reaper_before(self, instant_us: int) -> None:
        """Run the reaper at each time before the instant at which it would find work."""
        purgatory = self.purgatory
        self._skip_idle_wakes(instant_us)
        wake_ms = self._next_reaper_wake_ms()
        while wake_ms >= 0 and self._origin_us + wake_ms * 1000 < instant_us:
            self._set_time(self._origin_us + wake_ms * 1000)
            purgatory.advance_clock(0)
            self._last_wake_ms = wake_ms
            self._skip_idle_wakes(instant_us)
            wake_ms = self._next_reaper_wake_ms()

    def _skip_idle_wakes(self, instant_us: int) -> None:
        """Pass over wakes of the 0.8 design's interval, before an instant, at which nothing is due.

        Nothing makes a purge due between two instants, and no timeout fires before the timer's next
        deadline. So of these wakes only the last one matters: the interval starts at it again.
        """
        if self._interval_ms is None:
            return
        interval_ms = self._interval_ms
        first_ms = self._last_wake_ms + interval_ms
        if self._origin_us + first_ms * 1000 >= instant_us or self.purgatory._is_purge_due:
            return
        next_due_ms: int | None = self._timer.next_expiration_ms
        if next_due_ms is None:
            return
        limit_ms = next_due_ms
        if instant_us < self._origin_us + limit_ms * 1000:
            limit_ms = (instant_us - self._origin_us + 999) // 1000
        first_ms = max(first_ms, self.clock.ceil_ms)
        if first_ms < limit_ms:
            skipped = (limit_ms - 1 - first_ms) // interval_ms
            self._last_wake_ms = first_ms + skipped * interval_ms

    def _next_reaper_wake_ms(self) -> int:
        """Return the clock's time at which the reaper wakes up next, or -1 for never."""
        if self._wheel_timer is not None and self._interval_ms is None:
            return self._wheel_timer._peek_expiration_ms()
        due_ms: int | None = self._timer.next_expiration_ms
        if due_ms is None or self._interval_ms is None:
            return -1 if due_ms is None else due_ms
        return min(due_ms, max(self._last_wake_ms + self._interval_ms, self.clock.ceil_ms))

    def _set_time(self, now_us: int) -> None:
        self.ends.now_us = now_us
        self.clock._set_now_ns((now_us - self._origin_us) * 1000)

    def _key_state(self, key: str) -> KeyState:
        state = self._keys.get(key)
        if state is None:
            state = KeyState()
            self._keys[key] = state
        return state

    def _arrive(self, row: int) -> None:
        ends = self.ends
        operation = TraceOperation(ends, self._timeouts[row])
        operation.row = row
        operation.arrived_us = ends.now_us
        operation.deadline_us = ends.now_us + operation.delay_ms * 1000
        operation.threshold = self._thresholds[row]
        operation.aggregate = self._aggregates[row]
        operation.waits = None
        keys = self._watched[row] or []
        quantifier = self._quantifiers[row]
        if quantifier == "any":
            operation.needed = 1
        elif quantifier == "all":
            operation.needed = len(keys)
        else:
            # A key that is listed several times counts once.
            keys = list(dict.fromkeys(keys))
            operation.needed = int(quantifier)
        for key in keys:
            state = self._key_state(key)
            operation.waits = KeyWait(
                state, state.baseline(operation.aggregate, ends.now_us), operation.waits
            )
        # A request without keys is watched under itself, a key that no event has.
        self.purgatory.try_complete_else_watch(operation, keys or [operation])
        pending = self._counters.pending_unlocked()
        if pending > self.peak_pending:
            self.peak_pending = pending
        queued = self._timer.size if self._wheel_timer is None else self._wheel_timer._pending.count
        if queued > self.peak_queued:
            self.peak_queued = queued
        if self.arrivals % SAMPLE_EVERY == 0:
            self.sample()
        self.arrivals += 1

    def sample(self) -> None:
        """Look at what takes too long at every arrival; subclasses override it."""
