"""Replay: recorded traffic through the real purgatory, on virtual time, hosts side by side on Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from request_purgatory import states
from request_purgatory.clock import ManualClock
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.legacy import LegacyPurgatory
from request_purgatory.operation import DelayedOperation
from request_purgatory.pipeline.batch import outcome_table
from request_purgatory.pipeline.condition import NEVER, Ints, epoch_us
from request_purgatory.pipeline.schema import EVENTS, OUTCOMES, REQUESTS, require
from request_purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer import SystemTimer

WHEEL = "wheel"
LEGACY = "legacy"
DESIGNS = (WHEEL, LEGACY)

#: One level of a host's timing wheels: how many of its buckets held tasks, sampled every `SAMPLE_EVERY` arrivals.
WHEEL_LEVEL = T.StructType(
    [
        T.StructField("tick_ms", T.LongType()),
        T.StructField("buckets", T.IntegerType()),
        T.StructField("mean_used", T.DoubleType()),
        T.StructField("peak_used", T.IntegerType()),
    ]
)

#: What a host's purgatory did. `peak_queued` counts the timer's entries, in the 0.8 design ended ones too; the estimate's error
#: is E less the operations that the watcher lists held, at each purge (null in the 0.8 design, which has no estimate).
HOSTS = T.StructType(
    [
        T.StructField("design", T.StringType()),
        T.StructField("requests", T.LongType()),
        T.StructField("events", T.LongType()),
        T.StructField("completed", T.LongType()),
        T.StructField("expired", T.LongType()),
        T.StructField("peak_pending", T.LongType()),
        T.StructField("peak_queued", T.LongType()),
        T.StructField("purges", T.LongType()),
        T.StructField("purged_entries", T.LongType()),
        T.StructField("estimate_error_mean", T.DoubleType()),
        T.StructField("estimate_error_max", T.LongType()),
        T.StructField("tries", T.LongType()),
        T.StructField("callbacks", T.LongType()),
        T.StructField("callback_errors", T.LongType()),
        T.StructField("wheel", T.ArrayType(WHEEL_LEVEL)),
        T.StructField("task_seconds", T.DoubleType()),
    ]
)

#: What `replay` gives: a row a request, with `late_ms`, how long after its deadline an expired request's timeout fired, and a
#: row a host, where `kind` is "hosts", the outcome's columns but `host` are null, and `stats` says what happened there.
REPLAYED = T.StructType(
    [
        *OUTCOMES.fields,
        T.StructField("late_ms", T.DoubleType()),
        T.StructField("stats", HOSTS),
        T.StructField("kind", T.StringType()),
    ]
)

SAMPLE_EVERY = 1024


@dataclass(frozen=True)
class ReplaySettings:
    """Which purgatory, and how it is set."""

    design: str = WHEEL
    tick_ms: int = 1
    wheel_size: int = 20
    purge_interval: int = 1000
    shards: int = 512

    def __post_init__(self) -> None:
        if self.design not in DESIGNS:
            raise InvalidArgumentError("design", f"one of {', '.join(DESIGNS)}", self.design)
        # What the purgatory does not take is better told here than by every task.
        self.purgatory(ManualClock()).shutdown()

    def parameters(self) -> dict[str, Any]:
        """All fields, for the record."""
        return asdict(self)

    def purgatory(self, clock: ManualClock) -> DelayedOperationPurgatory:
        """A purgatory of these settings, without a thread."""
        if self.design == LEGACY:
            return LegacyPurgatory("replay", clock=clock, purge_interval=self.purge_interval, reaper=False)
        timer = SystemTimer("replay", tick_ms=self.tick_ms, wheel_size=self.wheel_size, clock=clock)
        return _MeasuredPurgatory("replay", timer=timer, purge_interval=self.purge_interval, shards=self.shards, reaper=False)


class _MeasuredPurgatory(DelayedOperationPurgatory):
    """The purgatory itself; before it purges, the operations in its lists are counted to see how good the estimate was."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.estimate_errors: list[int] = []

    def purge(self) -> int:
        estimate = self.metrics().estimated_operations
        self.estimate_errors.append(estimate - len(self.operations()))
        return super().purge()


def replay(requests: DataFrame, events: DataFrame, settings: ReplaySettings | None = None) -> DataFrame:
    """Drive a real purgatory with a trace, one per host, and tell how each request ended (`REPLAYED`).

    A task takes one host at a time; its requests and events have to fit in a Python worker's memory.

    Args:
        requests, events: of the schemas `schema.REQUESTS` and `schema.EVENTS`.
        settings: the design and its sizes.

    Raises:
        SchemaError: a column is missing or of another type.
    """
    settings = settings or ReplaySettings()
    requests = require(requests, REQUESTS, "requests")
    events = require(events, EVENTS, "events")
    return requests.groupBy("host").cogroup(events.groupBy("host")).applyInArrow(_replay_host(settings), REPLAYED)


def _replay_host(settings: ReplaySettings) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def replay_host(requests: pa.Table, events: pa.Table) -> pa.Table:
        if not requests.num_rows:
            return _arrow_schema().empty_table()
        begun = time.perf_counter()
        host = HostReplay(requests, events, settings)
        host.run()
        outcomes = host.outcomes()
        stats = host.stats(time.perf_counter() - begun)
        return pa.concat_tables([outcomes, pa.Table.from_pylist([stats], schema=_arrow_schema())])

    return replay_host


def _arrow_schema() -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema: pa.Schema = to_arrow_schema(REPLAYED, timezone="UTC")
    return schema


class TraceOperation(DelayedOperation):
    """A request of a trace, waiting in the purgatory for the trace's events."""

    __slots__ = ("_any", "_host", "_missing", "_progress", "_row", "_threshold", "deadline_us")

    def __init__(self, host: HostReplay, row: int, keys: list[str], timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self._host = host
        self._row = row
        self.deadline_us = host.now_us + timeout_ms * 1000
        self._any = host.quantifiers[row] == "any"
        self._threshold = host.thresholds[row]
        self._progress = host.progress[host.aggregates[row]]
        # Where each key's aggregate stood when the request came: that much does not count.
        since = self._progress.since
        self._missing = [(key, since(key)) for key in keys]

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
            host.satisfied[self._row] = host.now_us

    def on_expiration(self) -> None:
        host = self._host
        host.callbacks += 1
        host.late_us[self._row] = host.now_us - self.deadline_us


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


class HostReplay:
    """One host's trace on one purgatory.

    Time goes from instant to instant of the trace, in microseconds, and in between from bucket to bucket of the timer. At an
    instant: what was due before it has expired; its events are taken in; its requests arrive, and see them; the watched keys of
    its events are checked. What is due at this very instant expires after that, as an event at the deadline still completes.

    The reaper's part is played as each design's reaper would: it wakes when its timer has something due, and for a purge at
    once, or, in the 0.8 design, when its interval has passed.
    """

    def __init__(self, requests: pa.Table, events: pa.Table, settings: ReplaySettings) -> None:
        self._requests = requests
        self._settings = settings
        self._arrived = epoch_us(requests.column("arrived_at"))
        self._occurred = epoch_us(events.column("occurred_at"))
        firsts = [int(times.min()) for times in (self._arrived, self._occurred) if len(times)]
        # The virtual clock begins at the whole millisecond before the first thing that happens.
        self._origin_us = min(firsts) // 1000 * 1000
        self.clock = ManualClock()
        self.purgatory = settings.purgatory(self.clock)
        self.now_us = self._origin_us
        self.aggregates: list[str] = requests.column("aggregate").to_pylist()
        self.thresholds: list[float] = requests.column("threshold").to_pylist()
        self.quantifiers: list[str] = requests.column("quantifier").to_pylist()
        self._timeouts: list[int] = requests.column("timeout_ms").to_pylist()
        self._watch_keys: list[list[str] | None] = requests.column("watch_keys").to_pylist()
        self._keys: list[str] = events.column("key").to_pylist()
        self._amounts: list[float] = events.column("amount").to_pylist()
        self.progress = {"count": _Progress(), "sum": _Progress(), "max": _Progress(high_watermark=True)}
        self.satisfied: Ints = np.full(len(self._arrived), NEVER)
        self.late_us: Ints = np.zeros(len(self._arrived), dtype=np.int64)
        self.tries = 0
        self.callbacks = 0
        self._peak_pending = 0
        self._peak_queued = 0
        self._samples: list[list[tuple[int, int]]] = []
        self._last_wake_ms = 0

    def run(self) -> None:
        """Replay the whole trace, until every request has ended."""
        arrivals = np.argsort(self._arrived, kind="stable").tolist()
        # Equal times by amount: running totals are then the same whatever order the rows came in.
        happenings = np.lexsort((np.asarray(self._amounts, dtype=np.float64), self._occurred)).tolist()
        arrived, occurred = self._arrived.tolist(), self._occurred.tolist()
        instants = np.unique(np.concatenate([self._arrived, self._occurred])).tolist()
        next_arrival = next_event = 0
        for instant in instants:
            self._expire_before(instant)
            self._move_to(instant)
            touched: list[str] = []
            while next_event < len(happenings) and occurred[happenings[next_event]] == instant:
                row = happenings[next_event]
                self._take_in(self._keys[row], self._amounts[row])
                touched.append(self._keys[row])
                next_event += 1
            while next_arrival < len(arrivals) and arrived[arrivals[next_arrival]] == instant:
                self._arrive(arrivals[next_arrival])
                next_arrival += 1
            if touched:
                for key in touched:
                    self.purgatory.check_and_complete(key)
                self.progress["count"].before.clear()
                self.progress["sum"].before.clear()
            if self.purgatory.reap_interval_ms is None and self.purgatory.purge_due:
                self.purgatory.advance_clock(0)
        self._expire_before(None)
        pending = self.purgatory.shutdown()
        assert not pending, f"{len(pending)} requests never ended"

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

    def _arrive(self, row: int) -> None:
        keys = self._watch_keys[row] or []
        operation = TraceOperation(self, row, keys, self._timeouts[row])
        # A request without keys is watched under itself: no event can reach it there, as none can in the trace.
        self.purgatory.try_complete_else_watch(operation, keys or [operation])
        pending = self.purgatory.num_delayed
        if pending > self._peak_pending:
            self._peak_pending = pending
        queued = self.purgatory.timer.size
        if queued > self._peak_queued:
            self._peak_queued = queued
        if row % SAMPLE_EVERY == 0:
            timer = self.purgatory.timer
            if isinstance(timer, SystemTimer):
                self._samples.append(timer.used_buckets())

    def outcomes(self) -> pa.Table:
        """How the requests ended: rows of `REPLAYED` with `kind` "outcomes"."""
        requests = self._requests
        deadline = self._arrived + np.asarray(self._timeouts, dtype=np.int64) * 1000
        table = outcome_table(requests, self._arrived, deadline, self.satisfied)
        schema = _arrow_schema()
        late = pa.array(self.late_us / 1000, mask=self.satisfied != NEVER)
        columns = [*table.columns, late, pa.nulls(len(late), schema.field("stats").type), pa.repeat("outcomes", len(late))]
        return pa.table(columns, names=schema.names).cast(schema)

    def stats(self, task_seconds: float) -> dict[str, Any]:
        """What the purgatory did: a row of `REPLAYED` with `kind` "hosts"."""
        metrics = self.purgatory.metrics()
        errors = getattr(self.purgatory, "estimate_errors", [])
        return {
            "host": self._requests.column("host")[0].as_py(),
            "kind": "hosts",
            "stats": {
                "design": self._settings.design,
                "requests": len(self._arrived),
                "events": len(self._occurred),
                "completed": metrics.completions,
                "expired": metrics.expirations,
                "peak_pending": self._peak_pending,
                "peak_queued": self._peak_queued,
                "purges": metrics.purges,
                "purged_entries": metrics.purged_entries,
                "estimate_error_mean": float(np.mean(errors)) if errors else None,
                "estimate_error_max": max(errors) if errors else None,
                "tries": self.tries,
                "callbacks": self.callbacks,
                "callback_errors": metrics.callback_errors,
                "wheel": self._occupancy(),
                "task_seconds": task_seconds,
            },
        }

    def _occupancy(self) -> list[dict[str, Any]]:
        levels: dict[int, list[int]] = {}
        for sample in self._samples:
            for tick_ms, used in sample:
                levels.setdefault(tick_ms, []).append(used)
        return [
            {
                "tick_ms": tick_ms,
                "buckets": self._settings.wheel_size,
                # A level that did not exist yet at a sample had no bucket in use.
                "mean_used": sum(used) / len(self._samples),
                "peak_used": max(used),
            }
            for tick_ms, used in sorted(levels.items())
        ]
