"""The driver: one host's trace through a real purgatory, on virtual time, in as many parts as it comes in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from request_purgatory import states
from request_purgatory.clock import ManualClock
from request_purgatory.operation import DelayedOperation
from request_purgatory.pipeline.condition import Ints
from request_purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer import SystemTimer

#: Timing wheels are looked at once in this many arrivals.
SAMPLE_EVERY = 1024


@dataclass(frozen=True, slots=True)
class RequestPart:
    """Requests of one host in columns, in any order: as `schema.REQUESTS`, times in microseconds since the epoch."""

    arrived_us: Ints
    timeouts_ms: list[int]
    watch_keys: list[list[str]] | list[list[str] | None]
    aggregates: list[str]
    thresholds: list[float]
    quantifiers: list[str]


@dataclass(frozen=True, slots=True)
class EventPart:
    """Events of one host in columns, in any order: as `schema.EVENTS`, times in microseconds since the epoch."""

    occurred_us: Ints
    keys: list[str]
    amounts: list[float]


class TraceOperation(DelayedOperation):
    """A request of a trace, waiting in the purgatory for the trace's events."""

    __slots__ = ("_any", "_host", "_missing", "_progress", "_threshold", "arrived_us", "deadline_us", "row")

    def __init__(self, host: HostDriver, part: RequestPart, row: int) -> None:
        timeout_ms = part.timeouts_ms[row]
        super().__init__(timeout_ms)
        self._host = host
        self.row = row
        self.arrived_us = host.now_us
        self.deadline_us = host.now_us + timeout_ms * 1000
        self._any = part.quantifiers[row] == "any"
        self._threshold = part.thresholds[row]
        self._progress = host.progress[part.aggregates[row]]
        # Where each key's aggregate stood when the request came: that much does not count.
        since = self._progress.since
        self._missing = [(key, since(key)) for key in part.watch_keys[row] or ()]

    def try_complete(self) -> bool:
        host = self._host
        host.tries += 1
        if host.now_us > self.deadline_us:
            # The purgatory's clock has whole ticks: it may still hold this request for the rest of the tick in which its
            # deadline was. The trace's rule is the exact one.
            return False
        now = self._progress.now
        threshold = self._threshold
        if self._any:
            if not any(now.get(key, 0) - since >= threshold for key, since in self._missing):
                return False
        elif self._missing:
            self._missing = [(key, since) for key, since in self._missing if now.get(key, 0) - since < threshold]
            if self._missing:
                return False
        return self.force_complete()

    def on_complete(self) -> None:
        host = self._host
        host.callbacks += 1
        if self._state == states.COMPLETED:
            host.completed(self)

    def on_expiration(self) -> None:
        host = self._host
        host.callbacks += 1
        host.expired(self)


@dataclass(slots=True)
class _Progress:
    """One aggregate of every key's events: now, and where the events of the present instant found it.

    `high_watermark` is for `max`, where nothing is taken off: all events so far count.
    """

    high_watermark: bool = False
    now: dict[str, float] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)

    def since(self, key: str) -> float:
        """What to take off for a request that comes in this instant, whose own events count."""
        if self.high_watermark:
            return 0
        earlier = self.before.get(key)
        return self.now.get(key, 0) if earlier is None else earlier


class HostDriver:
    """One host's trace on one purgatory.

    Time goes from instant to instant of the trace, in microseconds, and in between from bucket to bucket of the timer. At an
    instant: what was due before it has expired; its events are taken in; its requests arrive, and see them; the watched keys of
    its events are checked. What is due at this very instant expires after that, as an event at the deadline still completes.

    The reaper's part is played as each design's reaper would: it wakes when its timer has something due, and for a purge at
    once, or, in the 0.8 design, when its interval has passed.

    Subclasses note how requests end, in `completed` and `expired`.
    """

    def __init__(self, purgatory: DelayedOperationPurgatory, clock: ManualClock, first_us: int) -> None:
        """A purgatory without a thread, on that clock; nothing of the trace happens before `first_us`."""
        # The virtual clock begins at the whole millisecond before the first thing that happens.
        self._origin_us = first_us // 1000 * 1000
        self.clock = clock
        self.purgatory = purgatory
        self.now_us = self._origin_us
        self.progress = {"count": _Progress(), "sum": _Progress(), "max": _Progress(high_watermark=True)}
        self.tries = 0
        self.callbacks = 0
        self.arrivals = 0
        self.events = 0
        self._peak_pending = 0
        self._peak_queued = 0
        self._samples = 0
        # By tick: in how many buckets there were tasks, all samples together, and at most.
        self._used: dict[int, tuple[int, int]] = {}
        self._last_wake_ms = 0

    def completed(self, operation: TraceOperation) -> None:
        """A request has completed now."""

    def expired(self, operation: TraceOperation) -> None:
        """A request's timeout has fired now, at its deadline or soon after it."""

    def play(self, requests: RequestPart, events: EventPart) -> None:
        """The next part of the trace: all that happens from one instant on to another, of which nothing was in earlier parts."""
        arrivals = np.argsort(requests.arrived_us, kind="stable").tolist()
        # Equal times by amount: running totals are then the same whatever order the rows came in.
        happenings = np.lexsort((np.asarray(events.amounts, dtype=np.float64), events.occurred_us)).tolist()
        arrived, occurred = requests.arrived_us.tolist(), events.occurred_us.tolist()
        keys, amounts = events.keys, events.amounts
        instants = np.unique(np.concatenate([requests.arrived_us, events.occurred_us])).tolist()
        next_arrival = next_event = 0
        for instant in instants:
            self._expire_before(instant)
            self._move_to(instant)
            touched: list[str] = []
            while next_event < len(happenings) and occurred[happenings[next_event]] == instant:
                row = happenings[next_event]
                self._take_in(keys[row], amounts[row])
                touched.append(keys[row])
                next_event += 1
            while next_arrival < len(arrivals) and arrived[arrivals[next_arrival]] == instant:
                self._arrive(requests, arrivals[next_arrival])
                next_arrival += 1
            if touched:
                for key in touched:
                    self.purgatory.check_and_complete(key)
                self.progress["count"].before.clear()
                self.progress["sum"].before.clear()
            if self.purgatory.reap_interval_ms is None and self.purgatory.purge_due:
                self.purgatory.advance_clock(0)
        self.events += len(happenings)

    def finish(self) -> None:
        """After the last part: let time pass until every request has ended."""
        self._expire_before(None)
        pending = self.purgatory.shutdown()
        assert not pending, f"{len(pending)} requests never ended"

    def forget(self, keys: Iterable[str]) -> None:
        """Drop what is known of keys that no request to come watches."""
        for progress in self.progress.values():
            now = progress.now
            for key in keys:
                now.pop(key, None)

    def _expire_before(self, instant_us: int | None) -> None:
        """Let the reaper do all that it does before the instant, each thing at its time; None: to the end."""
        purgatory = self.purgatory
        wake_ms = self._reaper_wakes_ms()
        while wake_ms is not None and (instant_us is None or self._origin_us + wake_ms * 1000 < instant_us):
            self._move_to(self._origin_us + wake_ms * 1000)
            purgatory.advance_clock(0)
            self._last_wake_ms = wake_ms
            wake_ms = self._reaper_wakes_ms()

    def _reaper_wakes_ms(self) -> int | None:
        due_ms = self.purgatory.timer.next_expiration_ms
        interval_ms = self.purgatory.reap_interval_ms
        if due_ms is None or interval_ms is None:
            return due_ms
        return min(due_ms, max(self._last_wake_ms + interval_ms, self.clock.ceil_ms))

    def _move_to(self, now_us: int) -> None:
        self.now_us = now_us
        self.clock.advance_to_ns((now_us - self._origin_us) * 1000)

    def _take_in(self, key: str, amount: float) -> None:
        count, total, mark = self.progress["count"], self.progress["sum"], self.progress["max"]
        counted, added = count.now.get(key, 0), total.now.get(key, 0.0)
        count.before.setdefault(key, counted)
        total.before.setdefault(key, added)
        count.now[key] = counted + 1
        total.now[key] = added + amount
        if amount > mark.now.get(key, 0.0):
            mark.now[key] = amount

    def _arrive(self, requests: RequestPart, row: int) -> None:
        operation = TraceOperation(self, requests, row)
        # A request without keys is watched under itself: no event can reach it there, as none can in the trace.
        self.purgatory.try_complete_else_watch(operation, requests.watch_keys[row] or [operation])
        pending = self.purgatory.num_delayed
        if pending > self._peak_pending:
            self._peak_pending = pending
        queued = self.purgatory.timer.size
        if queued > self._peak_queued:
            self._peak_queued = queued
        if self.arrivals % SAMPLE_EVERY == 0:
            self.sample()
        self.arrivals += 1

    def sample(self) -> None:
        """Look at what is too dear to look at with every arrival: how many of the wheels' buckets hold tasks."""
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
            {"tick_ms": tick_ms, "buckets": wheel_size, "mean_used": total / self._samples, "peak_used": peak}
            for tick_ms, (total, peak) in sorted(self._used.items())
        ]
