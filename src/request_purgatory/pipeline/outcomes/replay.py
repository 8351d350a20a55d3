"""Replay.

Recorded traffic through the real purgatory, on virtual time, hosts side by side on Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.clock import ManualClock
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.outcomes.condition import NEVER, Ints, epoch_us, flat_keys
from request_purgatory.pipeline.outcomes.replay_driver import (
    Ended,
    EventPart,
    HostDriver,
    RequestPart,
)
from request_purgatory.pipeline.spark.worker_gc import paused, settle_worker
from request_purgatory.pipeline.traces.schema import (
    COMPLETED,
    EVENTS,
    EXPIRED,
    OUTCOMES,
    REQUESTS,
    require,
)
from request_purgatory.purgatory.legacy import LegacyPurgatory
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer import SystemTimer

Objects = np.ndarray[Any, np.dtype[np.object_]]

WHEEL = "wheel"
LEGACY = "legacy"
DESIGNS = (WHEEL, LEGACY)

#: One level of a host's timing wheels: how many of its buckets held tasks, sampled every
#: `driver.SAMPLE_EVERY` arrivals.
WHEEL_LEVEL = T.StructType(
    [
        T.StructField("tick_ms", T.LongType()),
        T.StructField("buckets", T.IntegerType()),
        T.StructField("mean_used", T.DoubleType()),
        T.StructField("peak_used", T.IntegerType()),
    ]
)

#: What a host's purgatory did. `peak_queued` counts the timer's entries, in the 0.8 design ended
#: ones too; the estimate's error is E less the operations that the watcher lists held, at purges
#: (null in the 0.8 design, which has no estimate): at all of them while what is held is at most 20
#: times the purge interval, and less often when it is more, as counting takes its time.
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

#: What `replay` gives: a row a request, with `late_ms`, how long after its deadline an expired
#: request's timeout fired, and a row a host, where `kind` is "hosts", the outcome's columns but
#: `host` are null, and `stats` says what happened there.
REPLAYED = T.StructType(
    [
        *OUTCOMES.fields,
        T.StructField("late_ms", T.DoubleType()),
        T.StructField("stats", HOSTS),
        T.StructField("kind", T.StringType()),
    ]
)


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

    def purgatory(self, clock: ManualClock, *, measured: bool = False) -> DelayedOperationPurgatory:
        """A purgatory of these settings, without a thread.

        `measured`: a wheel's keeps how far its estimate was off at purges.
        """
        if self.design == LEGACY:
            return LegacyPurgatory(
                "replay", clock=clock, purge_interval=self.purge_interval, reaper=False
            )
        timer = SystemTimer("replay", tick_ms=self.tick_ms, wheel_size=self.wheel_size, clock=clock)
        kind = _MeasuredPurgatory if measured else DelayedOperationPurgatory
        return kind(
            "replay",
            timer=timer,
            purge_interval=self.purge_interval,
            shards=self.shards,
            reaper=False,
        )


_COUNTED_PER_ENDED = 20


class _MeasuredPurgatory(DelayedOperationPurgatory):
    """The purgatory itself.

    Before it purges, the operations in its lists are counted to see how good the estimate was.
    """

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.estimate_errors: list[int] = []
        self._may_count = 0

    def purge(self) -> int:
        estimate = self._counters.estimate
        # What is counted, all purges together, is a multiple of what has ended: otherwise a million
        # that wait for long would be counted again and again.
        self._may_count += _COUNTED_PER_ENDED * max(1, self.purge_interval)
        if estimate <= self._may_count:
            self._may_count -= estimate
            self.estimate_errors.append(estimate - len(self.operations()))
        return super().purge()


def replay(
    requests: DataFrame, events: DataFrame, settings: ReplaySettings | None = None
) -> DataFrame:
    """Drive a real purgatory with a trace, one per host, and tell how each request ended (`REPLAYED`).

    A task takes one host at a time; its requests and events have to fit in a Python worker's memory
    (`host_sizes.require_hosts_fit`).

    Args:
        requests, events: of the schemas `schema.REQUESTS` and `schema.EVENTS`.
        settings: the design and its sizes.

    Raises:
        SchemaError: a column is missing or of another type.
    """
    settings = settings or ReplaySettings()
    requests = require(requests, REQUESTS, "requests")
    events = require(events, EVENTS, "events")
    return (
        requests.groupBy("host")
        .cogroup(events.groupBy("host"))
        .applyInArrow(_replay_host(settings), REPLAYED)
    )


def _replay_host(settings: ReplaySettings) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def replay_host(requests: pa.Table, events: pa.Table) -> pa.Table:
        settle_worker()
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


def _parts(requests: pa.Table, events: pa.Table) -> tuple[RequestPart, EventPart]:
    flat, lengths = flat_keys(requests.column("watch_keys"))
    with paused():
        keys = _objects(pa.chunked_array([flat, *events.column("key").chunks], flat.type))
        requests_part = RequestPart(
            arrived_us=epoch_us(requests.column("arrived_at")),
            timeouts_ms=requests.column("timeout_ms").to_numpy().tolist(),
            watch_keys=_lists(keys[: len(flat)], lengths),
            aggregates=_objects(requests.column("aggregate")).tolist(),
            thresholds=requests.column("threshold").to_numpy().tolist(),
            quantifiers=_objects(requests.column("quantifier")).tolist(),
        )
        events_part = EventPart(
            occurred_us=epoch_us(events.column("occurred_at")),
            keys=keys[len(flat) :].tolist(),
            amounts=events.column("amount").to_numpy().tolist(),
        )
    return requests_part, events_part


def _objects(column: pa.ChunkedArray) -> Objects:
    """A column of strings.

    Equal ones become one object, which is hashed once, and found by what it is.
    """
    encoded = column.dictionary_encode().combine_chunks()
    objects: Objects = encoded.dictionary.to_numpy(zero_copy_only=False)[encoded.indices.to_numpy()]
    return objects


def _lists(flat: Objects, lengths: Ints) -> list[list[str]]:
    """The elements in lists of these lengths."""
    if len(lengths) and (lengths == lengths[0]).all():
        lists: list[list[str]] = flat.reshape(len(lengths), lengths[0]).tolist()
        return lists
    objects, ends = flat.tolist(), np.cumsum(lengths).tolist()
    return [objects[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class HostReplay(HostDriver):
    """One host's whole trace on one purgatory, and how each of its requests ended."""

    def __init__(self, requests: pa.Table, events: pa.Table, settings: ReplaySettings) -> None:
        self._table = requests
        self._settings = settings
        self._requests, self._events = _parts(requests, events)
        firsts = [
            int(times.min())
            for times in (self._requests.arrived_us, self._events.occurred_us)
            if len(times)
        ]
        clock = ManualClock()
        super().__init__(settings.purgatory(clock, measured=True), clock, min(firsts))
        self.satisfied: Ints = np.full(requests.num_rows, NEVER)
        self.late_us: Ints = np.zeros(requests.num_rows, dtype=np.int64)

    def run(self) -> None:
        """Replay the whole trace, until every request has ended."""
        self.play(self._requests, self._events)
        self._take(self.ended())
        self.finish()
        self._take(self.ended())

    def _take(self, ended: Ended) -> None:
        completed = ~ended.expired
        self.satisfied[ended.row[completed]] = ended.ended_us[completed]
        self.late_us[ended.row[ended.expired]] = (ended.ended_us - ended.deadline_us)[ended.expired]

    def outcomes(self) -> pa.Table:
        """How the requests ended: rows of `REPLAYED` with `kind` "outcomes"."""
        arrived = self._requests.arrived_us
        deadline = arrived + np.asarray(self._requests.timeouts_ms, dtype=np.int64) * 1000
        completed = self.satisfied <= deadline
        ended = np.where(completed, self.satisfied, deadline)
        schema = _arrow_schema()
        columns = [
            *[self._table.column(name) for name in OUTCOMES.names[:4]],
            pa.array(ended, pa.timestamp("us", tz="UTC")),
            pa.array([EXPIRED, COMPLETED]).take(pa.array(completed.astype(np.int8))),
            pa.array((ended - arrived) / 1000),
            pa.array(self.late_us / 1000, mask=self.satisfied != NEVER),
            pa.nulls(len(ended), schema.field("stats").type),
            pa.repeat("outcomes", len(ended)),
        ]
        return pa.table(columns, names=schema.names).cast(schema)

    def stats(self, task_seconds: float) -> dict[str, Any]:
        """What the purgatory did: a row of `REPLAYED` with `kind` "hosts"."""
        errors = getattr(self.purgatory, "estimate_errors", [])
        stats = self.counts() | {
            "design": self._settings.design,
            "estimate_error_mean": float(np.mean(errors)) if errors else None,
            "estimate_error_max": max(errors) if errors else None,
            "wheel": self.occupancy(self._settings.wheel_size),
            "task_seconds": task_seconds,
        }
        return {"host": self._table.column("host")[0].as_py(), "kind": "hosts", "stats": stats}
