"""The driver.

One host's trace through a real purgatory, on virtual time, in as many parts as it comes in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from request_purgatory._native import states
from request_purgatory.clock import ManualClock
from request_purgatory.pipeline.outcomes.condition import Bools, Ints
from request_purgatory.pipeline.spark.worker_gc import paused
from request_purgatory.pipeline.traces.schema import AGGREGATES
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer.timer import SystemTimer

#: Timing wheels are looked at once in this many arrivals.
SAMPLE_EVERY = 1024


@dataclass(frozen=True, slots=True)
class RequestPart:
    """Requests of one host in columns, in any order.

    As `schema.REQUESTS`, times in microseconds since the epoch.
    """

    arrived_us: Ints
    timeouts_ms: list[int]
    watch_keys: list[list[str]] | list[list[str] | None]
    aggregates: list[str]
    thresholds: list[float]
    quantifiers: list[str]


@dataclass(frozen=True, slots=True)
class EventPart:
    """Events of one host in columns, in any order.

    As `schema.EVENTS`, times in microseconds since the epoch.
    """

    occurred_us: Ints
    keys: list[str]
    amounts: list[float]


@dataclass(frozen=True, slots=True)
class Ended:
    """Requests that have ended, in columns; times in microseconds since the epoch.

    `row` is that in the part that it came in. An expired request has ended when its timeout fired,
    at the deadline or later.
    """

    row: Ints
    arrived_us: Ints
    deadline_us: Ints
    ended_us: Ints
    expired: Bools


class KeyState:
    """What a key's events add up to.

    Now, and before those of the latest instant in which it had any.
    """

    __slots__ = ("_count", "_count_before", "_high", "_instant_us", "_total", "_total_before")

    def __init__(self) -> None:
        self._count = 0.0
        self._total = 0.0
        self._high = 0.0
        self._count_before = 0.0
        self._total_before = 0.0
        self._instant_us = -1

    def take_in(self, amount: float, now_us: int) -> None:
        """An event of this instant."""
        if self._instant_us != now_us:
            self._instant_us = now_us
            self._count_before = self._count
            self._total_before = self._total
        self._count += 1
        self._total += amount
        if amount > self._high:
            self._high = amount

    # Aggregates go by their position in `schema.AGGREGATES`: 0 is count, 1 is sum, 2 is max.

    def now(self, aggregate: int) -> float:
        """Where an aggregate stands."""
        if aggregate == 0:
            return self._count
        return self._total if aggregate == 1 else self._high

    def since(self, aggregate: int, now_us: int) -> float:
        """What does not count for a request that comes in this instant, whose own events do."""
        if aggregate == 0:
            return self._count_before if self._instant_us == now_us else self._count
        if aggregate == 1:
            return self._total_before if self._instant_us == now_us else self._total
        # A high watermark counts from the beginning of time.
        return 0.0


class Wait:
    """One key that a request waits for, and the one after it."""

    __slots__ = ("_key", "_next", "_since")

    def __init__(self, key: KeyState, since: float, after: Wait | None) -> None:
        self._key = key
        self._since = since
        self._next = after


class TraceOperation(DelayedOperation):
    """A request of a trace, waiting in the purgatory for the trace's events."""

    __slots__ = (
        "_aggregate",
        "_any",
        "_host",
        "_threshold",
        "_waits",
        "arrived_us",
        "deadline_us",
        "row",
    )

    # Set where it arrives.
    row: int
    arrived_us: int
    deadline_us: int
    _aggregate: int
    _any: bool
    _threshold: float
    _waits: Wait | None

    def __init__(self, host: HostDriver, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self._host = host

    def try_complete(self) -> bool:
        host = self._host
        host.tries += 1
        if host.now_us > self.deadline_us:
            # The purgatory's clock has whole ticks: it may still hold this request for the rest of
            # the tick in which its deadline was. The trace's rule is the exact one.
            return False
        return self._holds() and self.force_complete()

    def _holds(self) -> bool:
        """Whether the condition does; keys that have had enough are not looked at again."""
        last = None
        wait = self._waits
        while wait is not None:
            if wait._key.now(self._aggregate) - wait._since < self._threshold:
                last = wait
            elif self._any:
                return True
            elif last is None:
                self._waits = wait._next
            else:
                last._next = wait._next
            wait = wait._next
        return not self._any and self._waits is None

    def on_complete(self) -> None:
        host = self._host
        host.callbacks += 1
        if self._state == states.COMPLETED:
            host._note(self, False)

    def on_expiration(self) -> None:
        host = self._host
        host.callbacks += 1
        host._note(self, True)


#: After every instant.
_NO_INSTANT = 2**63 - 1
_AGGREGATES = {name: number for number, name in enumerate(AGGREGATES)}


class HostDriver:
    """One host's trace on one purgatory.

    Time goes from instant to instant of the trace, in microseconds, and in between from bucket to
    bucket of the timer. At an instant: what was due before it has expired; its events are taken in;
    its requests arrive, and see them; the watched keys of its events are checked. What is due at
    this very instant expires after that, as an event at the deadline still completes.

    The reaper's part is played as each design's reaper would: it wakes when its timer has something
    due, and for a purge at once, or, in the 0.8 design, when its interval has passed.

    How requests end is noted as they do; `ended` gives it out after each part.
    """

    def __init__(
        self, purgatory: DelayedOperationPurgatory, clock: ManualClock, first_us: int
    ) -> None:
        """A purgatory without a thread, on that clock.

        Nothing of the trace happens before `first_us`.
        """
        # The virtual clock begins at the whole millisecond before the first thing that happens.
        self._origin_us = first_us // 1000 * 1000
        self.clock = clock
        self.purgatory = purgatory
        self.now_us = self._origin_us
        self.tries = 0
        self.callbacks = 0
        self.arrivals = 0
        self.events = 0
        self._interval_ms = purgatory.reap_interval_ms
        self._timer = purgatory.timer
        # The purgatory's own parts, which are asked at every instant.
        self._wheel_timer = purgatory._wheel_timer
        self._counters = purgatory._counters
        self._make_room(0)
        self._keys: dict[str, KeyState] = {}
        self._peak_pending = 0
        self._peak_queued = 0
        self._samples = 0
        # By tick: in how many buckets there were tasks, all samples together, and at most.
        self._used: dict[int, tuple[int, int]] = {}
        self._last_wake_ms = 0

    def _make_room(self, requests: int) -> None:
        """For the ends of so many more requests than are pending."""
        room = self.purgatory.num_delayed + requests
        self._ended = 0
        self._columns = tuple(np.empty(room, dtype=np.int64) for _ in range(5))
        self._rows, self._arrived_us, self._deadlines_us, self._ended_us, self._expired = (
            self._columns
        )

    def _note(self, operation: TraceOperation, expired: bool) -> None:
        at = self._ended
        self._rows[at] = operation.row
        self._arrived_us[at] = operation.arrived_us
        self._deadlines_us[at] = operation.deadline_us
        self._ended_us[at] = self.now_us
        self._expired[at] = expired
        self._ended = at + 1

    def ended(self) -> Ended:
        """How requests have ended in the last part, or in `finish`."""
        rows, arrived, deadlines, ended, expired = [
            column[: self._ended] for column in self._columns
        ]
        return Ended(rows, arrived, deadlines, ended, expired.astype(bool))

    def play(self, requests: RequestPart, events: EventPart) -> None:
        """The next part of the trace.

        All that happens from one instant on to another, of which nothing was in earlier parts.
        """
        arrivals = np.argsort(requests.arrived_us, kind="stable")
        # Equal times by amount: running totals are then the same whatever order the rows came in.
        happenings = np.lexsort((np.asarray(events.amounts, dtype=np.float64), events.occurred_us))
        self._bind(requests)
        self._make_room(len(arrivals))
        with paused():
            self._play(
                arrivals.tolist(),
                requests.arrived_us[arrivals].tolist(),
                happenings.tolist(),
                events.occurred_us[happenings].tolist(),
                events.keys,
                events.amounts,
            )
        self.events += len(happenings)

    def _play(
        self,
        arrivals: list[int],
        arrived: list[int],
        happenings: list[int],
        occurred: list[int],
        keys: list[str],
        amounts: list[float],
    ) -> None:
        """`arrivals` and `happenings` are rows in order of time, `arrived` and `occurred` their times."""
        purgatory = self.purgatory
        arrivals_left, events_left = len(arrivals), len(happenings)
        next_arrival = next_event = 0
        while next_arrival < arrivals_left or next_event < events_left:
            instant = _NO_INSTANT
            if next_arrival < arrivals_left:
                instant = arrived[next_arrival]
            if next_event < events_left and occurred[next_event] < instant:
                instant = occurred[next_event]
            self._expire_before(instant)
            self._move_to(instant)
            first_event = next_event
            while next_event < events_left and occurred[next_event] == instant:
                row = happenings[next_event]
                self._key(keys[row]).take_in(amounts[row], instant)
                next_event += 1
            while next_arrival < arrivals_left and arrived[next_arrival] == instant:
                self._arrive(arrivals[next_arrival])
                next_arrival += 1
            while first_event < next_event:
                purgatory.check_and_complete(keys[happenings[first_event]])
                first_event += 1
            if self._interval_ms is None and purgatory._purge_due(
                self._counters.estimate - self._counters._pending()
            ):
                purgatory.advance_clock(0)

    def _bind(self, requests: RequestPart) -> None:
        self._timeouts = requests.timeouts_ms
        self._watched = requests.watch_keys
        # One number for each name, looked up once.
        self._aggregates = [_AGGREGATES[name] for name in requests.aggregates]
        self._thresholds = requests.thresholds
        self._quantifiers = requests.quantifiers

    def finish(self) -> None:
        """After the last part: let time pass until every request has ended."""
        self._make_room(0)
        self._expire_before(_NO_INSTANT)
        pending = self.purgatory.shutdown()
        assert not pending, f"{len(pending)} requests never ended"

    def forget(self, keys: Iterable[str]) -> None:
        """Drop what is known of keys that no request to come watches."""
        for key in keys:
            self._keys.pop(key, None)

    def _expire_before(self, instant_us: int) -> None:
        """Let the reaper do all that it does before the instant, each thing at its time."""
        purgatory = self.purgatory
        wake_ms = self._reaper_wakes_ms()
        while wake_ms >= 0 and self._origin_us + wake_ms * 1000 < instant_us:
            self._move_to(self._origin_us + wake_ms * 1000)
            purgatory.advance_clock(0)
            self._last_wake_ms = wake_ms
            wake_ms = self._reaper_wakes_ms()

    def _reaper_wakes_ms(self) -> int:
        """When the reaper has something to do next; -1 for never."""
        if self._wheel_timer is not None and self._interval_ms is None:
            return self._wheel_timer._next_due_ms()
        due_ms: int | None = self._timer.next_expiration_ms
        if due_ms is None or self._interval_ms is None:
            return -1 if due_ms is None else due_ms
        return min(due_ms, max(self._last_wake_ms + self._interval_ms, self.clock.ceil_ms))

    def _move_to(self, now_us: int) -> None:
        self.now_us = now_us
        self.clock._move_to_ns((now_us - self._origin_us) * 1000)

    def _key(self, key: str) -> KeyState:
        state = self._keys.get(key)
        if state is None:
            state = KeyState()
            self._keys[key] = state
        return state

    def _arrive(self, row: int) -> None:
        operation = TraceOperation(self, self._timeouts[row])
        operation.row = row
        operation.arrived_us = self.now_us
        operation.deadline_us = self.now_us + operation.delay_ms * 1000
        operation._any = self._quantifiers[row] == "any"
        operation._threshold = self._thresholds[row]
        operation._aggregate = self._aggregates[row]
        operation._waits = None
        keys = self._watched[row]
        for key in keys or ():
            state = self._key(key)
            operation._waits = Wait(
                state, state.since(operation._aggregate, self.now_us), operation._waits
            )
        # A request without keys is watched under itself: no event can reach it there, as none can
        # in the trace.
        self.purgatory.try_complete_else_watch(operation, keys or [operation])
        pending = self._counters._pending()
        if pending > self._peak_pending:
            self._peak_pending = pending
        queued = self._timer.size if self._wheel_timer is None else self._wheel_timer._pending.count
        if queued > self._peak_queued:
            self._peak_queued = queued
        if self.arrivals % SAMPLE_EVERY == 0:
            self.sample()
        self.arrivals += 1

    def sample(self) -> None:
        """Look at what is too dear to look at with every arrival.

        How many of the wheels' buckets hold tasks.
        """
        timer = self.purgatory.timer
        if isinstance(timer, SystemTimer):
            self._samples += 1
            for tick_ms, used in timer.used_buckets():
                total, peak = self._used.get(tick_ms, (0, 0))
                self._used[tick_ms] = total + used, max(peak, used)

    def counts(self) -> dict[str, Any]:
        """What the purgatory did so far."""
        metrics = self.purgatory.metrics()
        return {
            "requests": self.arrivals,
            "events": self.events,
            "completed": metrics.completions,
            "expired": metrics.expirations,
            "peak_pending": self._peak_pending,
            "peak_queued": self._peak_queued,
            "purges": metrics.purges,
            "purged_entries": metrics.purged_entries,
            "tries": self.tries,
            "callbacks": self.callbacks,
            "callback_errors": metrics.callback_errors,
        }

    def occupancy(self, wheel_size: int) -> list[dict[str, Any]]:
        """The wheels' levels, finest first: rows of `replay.WHEEL_LEVEL`."""
        return [
            # A level that did not exist yet at a sample had no bucket in use.
            {
                "tick_ms": tick_ms,
                "buckets": wheel_size,
                "mean_used": total / self._samples,
                "peak_used": peak,
            }
            for tick_ms, (total, peak) in sorted(self._used.items())
        ]
