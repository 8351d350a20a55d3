"""Replay traces through real purgatories on virtual time, with the hosts in parallel on Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._errors import require_one_of
from purgatory_spark._outcomes import results
from purgatory_spark._outcomes.condition import NEVER, epoch_us, flat_keys
from purgatory_spark._outcomes.host_driver import EndedRequests, EventPart, HostDriver, RequestPart
from purgatory_spark._outcomes.reject_rows import split_repeated
from purgatory_spark._rows.checks import (
    REASON,
    Check,
    event_checks,
    flag_rejects,
    reject_hash,
    request_checks,
)
from purgatory_spark._rows.repeats import REPEATED, tie_numbers
from purgatory_spark._rows.schema import (
    COMPLETED,
    EVENTS,
    EXPIRED,
    IDENTITY,
    OUTCOMES,
    REQUESTS,
    require,
    with_passed,
)
from purgatory_spark._spark.arrays import Ints
from purgatory_spark._spark.files import JSON_OPTIONS, RAW
from purgatory_spark._spark.schemas import (
    fields_of,
    from_micros,
    micros_schema,
    to_micros,
    utc_schema,
)
from purgatory_spark._spark.worker_gc import freeze_imported_objects, gc_paused
from purgatory_spark._spark.workers import require_local_python
from request_purgatory.clock import ManualClock
from request_purgatory.legacy import LegacyPurgatory
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer import DEFAULT_TICK_MS, DEFAULT_WHEEL_SIZE, SystemTimer

Objects = np.ndarray[Any, np.dtype[np.object_]]

WHEEL = "wheel"
LEGACY = "legacy"
DESIGNS = (WHEEL, LEGACY)

#: A level of a host's timing wheels. `mean_used` and `peak_used` count its buckets with tasks,
#: sampled once in `replay_driver.SAMPLE_EVERY` arrivals.
WHEEL_LEVEL = T.StructType(
    [
        T.StructField("tick_ms", T.LongType()),
        T.StructField("buckets", T.IntegerType()),
        T.StructField("mean_used", T.DoubleType()),
        T.StructField("peak_used", T.IntegerType()),
    ]
)

#: Statistics of a host's purgatory. `peak_queued` counts the timer's entries, which in the 0.8
#: design include ended requests. The estimate errors are differences at purges: the purgatory's
#: estimate of the operations in its watcher lists, less their true number. They are null in the 0.8
#: design, which has no estimate. Not every purge is measured (`_MeasuredPurgatory`).
HOSTS = T.StructType(
    [
        *fields_of(T.StringType(), "design"),
        *fields_of(T.LongType(), "requests", "events", "completed", "expired"),
        *fields_of(T.LongType(), "peak_pending", "peak_queued", "purges", "purged_entries"),
        *fields_of(T.DoubleType(), "estimate_error_mean"),
        *fields_of(T.LongType(), "estimate_error_max", "tries", "callbacks", "callback_errors"),
        *fields_of(T.ArrayType(WHEEL_LEVEL), "wheel"),
        *fields_of(T.DoubleType(), "task_seconds"),
    ]
)

#: The result of `replay`, with three kinds of rows. `kind` is "outcomes" in one row per request,
#: with `late_ms`, the time from an expired request's deadline to its timeout's callback. `kind` is
#: "hosts" in one row per host, with `stats`; there the outcome's columns except `host` are null.
#: `kind` is "rejects" in one row per row that broke a rule, with `reason` and `row`.
REPLAYED = T.StructType(
    [
        *OUTCOMES.fields,
        T.StructField("late_ms", T.DoubleType()),
        T.StructField("stats", HOSTS),
        *results.REJECT_FIELDS,
    ]
)

#: In the result of `replay_designs`, the position of the design that a row is of.
DESIGN_NUMBER = "design_number"
_NUMBERED = T.StructType([*REPLAYED.fields, T.StructField(DESIGN_NUMBER, T.IntegerType())])
_ROWS = utc_schema(micros_schema(_NUMBERED))

# Rejects have no group of their own among the hosts. They are spread over a few, so that one with
# many rows does not have to fit into one worker.
_REJECT_GROUPS = 64


@dataclass(frozen=True)
class ReplaySettings:
    """The design of the replayed purgatory and its parameters.

    Attributes:
        design: "wheel" for timing wheels, or "legacy" for the design of Kafka 0.8, which only has
            `purge_interval`.
        tick_ms: Tick of the finest timing wheel.
        wheel_size: Buckets of each timing wheel.
        purge_interval: Purge once about this many ended operations are in the watcher lists.
        shards: Number of parts that the watch keys are spread over, each with a lock of its own.
    """

    design: str = WHEEL
    tick_ms: int = DEFAULT_TICK_MS
    wheel_size: int = DEFAULT_WHEEL_SIZE
    purge_interval: int = 1000
    shards: int = 512

    def __post_init__(self) -> None:
        require_one_of(DESIGNS, design=self.design)
        # The purgatory checks its own arguments. Errors are raised here instead of in every task.
        self.purgatory(ManualClock()).close()

    def parameters(self) -> dict[str, Any]:
        """Return all fields by name, for manifests."""
        return asdict(self)

    def purgatory(self, clock: ManualClock, *, measured: bool = False) -> DelayedOperationPurgatory:
        """Make a purgatory without a reaper thread.

        Args:
            clock: The clock of its timer.
            measured: Record the errors of the purge estimate; ignored for LEGACY.

        Returns:
            The purgatory.
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
    """A purgatory that records by how much its purge estimate exceeds the true number.

    Counting the operations takes time in proportion to their number, so it has a budget. Each purge
    adds 20 operations to the budget for each operation of the purge interval. A purge is measured
    if the budget covers the operations that it would count. Otherwise a million operations that
    wait for a long time would be counted again at every purge.
    """

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.estimate_errors: list[int] = []
        self._budget = 0

    def purge(self) -> int:
        estimate = self._counters.estimate
        self._budget += _COUNTED_PER_ENDED * max(1, self.purge_interval)
        if estimate <= self._budget:
            self._budget -= estimate
            self.estimate_errors.append(estimate - len(self.operations()))
        return super().purge()


def replay(
    requests: DataFrame, events: DataFrame, settings: ReplaySettings | None = None
) -> DataFrame:
    """Replay each host of a trace through a real purgatory.

    A task takes one host at a time. Its requests and events have to fit into a Python worker's
    memory (`host_sizes.require_hosts_fit`).

    Args:
        requests: Rows of `schema.REQUESTS`.
        events: Rows of `schema.EVENTS`.
        settings: The design and its parameters; None means the defaults.

    Returns:
        A table of the schema `REPLAYED`.

    Raises:
        SchemaError: A column is missing or of another type.
    """
    return replay_designs(requests, events, [settings or ReplaySettings()]).drop(DESIGN_NUMBER)


def replay_designs(
    requests: DataFrame, events: DataFrame, designs: Sequence[ReplaySettings]
) -> DataFrame:
    """Replay each host of a trace through several purgatories, one after the other.

    Requests and events are read, shuffled and passed to Python once for all of them. The position
    of a row's design is in `DESIGN_NUMBER`, null for rejects, which are the same for all.
    """
    require_local_python(requests.sparkSession)
    # Hosts are not told apart by a hash: a purgatory is for one host.
    good_host = F.when(F.col(REASON).isNull(), F.col("host"))
    reject_group = F.pmod(reject_hash(F.col(RAW)), F.lit(_REJECT_GROUPS))
    groups = [good_host.alias("good_host"), reject_group.alias("group")]
    checked = (
        with_passed(_flagged(requests, REQUESTS, "requests", request_checks())),
        _flagged(events, EVENTS, "events", event_checks()),
    )
    tables = [
        table.select(*to_micros(table.schema), *groups).groupBy("good_host", "group")
        for table in checked
    ]
    replayed = (
        tables[0]
        .cogroup(tables[1])
        .applyInArrow(
            lambda requests, events: _replay_host(requests, events, designs),
            micros_schema(_NUMBERED),
        )
    )
    return from_micros(replayed, _NUMBERED)


def _flagged(table: DataFrame, schema: T.StructType, what: str, checks: list[Check]) -> DataFrame:
    """Check rows in Spark, as the batch does in workers: add `REASON`, and `RAW` of rejects."""
    flagged = flag_rejects(require(table, schema, what), checks)
    as_json = F.to_json(F.struct(*schema.names), JSON_OPTIONS)
    return flagged.withColumn(RAW, F.when(F.col(REASON).isNotNull(), as_json))


def _replay_host(
    requests: pa.Table, events: pa.Table, designs: Sequence[ReplaySettings]
) -> pa.Table:
    freeze_imported_objects()
    rejects = _reject_rows(requests) + _reject_rows(events)
    if rejects:  # A group of rejects has no other rows.
        return pa.Table.from_pylist(rejects, schema=_ROWS)
    if not requests.num_rows:
        return _ROWS.empty_table()
    arrived_us = epoch_us(requests.column("arrived_at"))
    timeouts_us = requests.column("timeout_ms").cast(pa.int64()).to_numpy() * 1000
    repeated, texts = split_repeated(
        requests,
        arrived_us,
        arrived_us + timeouts_us,
        lambda rows: tie_numbers(requests.take(pa.array(rows))),
    )
    if texts:
        requests = requests.filter(pa.array(~repeated))
    further = [{"reason": REPEATED, "row": text, "kind": results.REJECT_KIND} for text in texts]
    replayed = []
    for number, settings in enumerate(designs):
        started = time.perf_counter()
        host = HostReplay(requests, events, settings)
        host.run()
        outcomes = host.outcomes()
        replayed.append(
            outcomes.append_column(
                DESIGN_NUMBER, pa.repeat(pa.scalar(number, pa.int32()), outcomes.num_rows)
            )
        )
        stats = host.stats(time.perf_counter() - started)
        further.append(stats | {DESIGN_NUMBER: number})
    tables = [pa.Table.from_pylist(further, schema=_ROWS), *replayed]
    return pa.concat_tables(tables, promote_options="default")


def _reject_rows(table: pa.Table) -> list[dict[str, Any]]:
    rejected = table.select([REASON, RAW]).filter(table.column(REASON).is_valid())
    return [
        {"reason": row[REASON], "row": row[RAW], "kind": results.REJECT_KIND}
        for row in rejected.to_pylist()
    ]


def _parts(requests: pa.Table, events: pa.Table) -> tuple[RequestPart, EventPart]:
    flat, lengths = flat_keys(requests.column("watch_keys"))
    with gc_paused():
        keys = _objects(pa.chunked_array([flat, *events.column("key").chunks], flat.type))
        requests_part = RequestPart(
            arrived_us=epoch_us(requests.column("arrived_at")),
            timeouts_ms=requests.column("timeout_ms").to_numpy().tolist(),
            watch_keys=_split(keys[: len(flat)], lengths),
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
    """Return a column of strings as Python objects, with one object for all equal strings.

    A string caches its hash, and dictionaries compare by identity first, so look-ups are fast.
    """
    encoded = column.dictionary_encode().combine_chunks()
    objects: Objects = encoded.dictionary.to_numpy(zero_copy_only=False)[encoded.indices.to_numpy()]
    return objects


def _split(flat: Objects, lengths: Ints) -> list[list[str]]:
    if len(lengths) and (lengths == lengths[0]).all():
        lists: list[list[str]] = flat.reshape(len(lengths), lengths[0]).tolist()
        return lists
    objects, ends = flat.tolist(), np.cumsum(lengths).tolist()
    return [objects[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class HostReplay(HostDriver):
    """The replay of one host's whole trace through one purgatory.

    `satisfied_us` has NEVER, and `late_us` has 0, for requests of the other outcome.
    """

    def __init__(self, requests: pa.Table, events: pa.Table, settings: ReplaySettings) -> None:
        """Make the purgatory; there is at least one request, and no row breaks a rule."""
        self._table = requests
        self._settings = settings
        self._requests, self._events = _parts(requests, events)
        first_us = min(
            int(times.min())
            for times in (self._requests.arrived_us, self._events.occurred_us)
            if len(times)
        )
        clock = ManualClock()
        super().__init__(settings.purgatory(clock, measured=True), clock, first_us)
        self.satisfied_us: Ints = np.full(requests.num_rows, NEVER)
        self.late_us: Ints = np.zeros(requests.num_rows, dtype=np.int64)

    def run(self) -> None:
        self.play(self._requests, self._events)
        self._store(self.ended())
        self.finish()
        self._store(self.ended())

    def _store(self, ended: EndedRequests) -> None:
        completed = ~ended.expired
        self.satisfied_us[ended.row[completed]] = ended.ended_us[completed]
        self.late_us[ended.row[ended.expired]] = (ended.ended_us - ended.deadline_us)[ended.expired]

    def outcomes(self) -> pa.Table:
        """Return how the requests ended: the columns of `REPLAYED` that outcomes have."""
        arrived = self._requests.arrived_us
        deadline = arrived + np.asarray(self._requests.timeouts_ms, dtype=np.int64) * 1000
        completed = self.satisfied_us <= deadline
        ended = np.where(completed, self.satisfied_us, deadline)
        columns = {
            **{name: self._table.column(name) for name in IDENTITY},
            "arrived_at": arrived,
            "ended_at": ended,
            "outcome": pa.array([EXPIRED, COMPLETED]).take(pa.array(completed.astype(np.int8))),
            "waited_ms": (ended - arrived) / 1000,
            "late_ms": pa.array(self.late_us / 1000, mask=self.satisfied_us != NEVER),
            "kind": pa.repeat(results.OUTCOME_KIND, len(ended)),
        }
        return pa.table(columns)

    def stats(self, task_seconds: float) -> dict[str, Any]:
        """Return the purgatory's statistics, as a row of `REPLAYED`."""
        errors = getattr(self.purgatory, "estimate_errors", [])
        stats = self.counts() | {
            "design": self._settings.design,
            "estimate_error_mean": float(np.mean(errors)) if errors else None,
            "estimate_error_max": max(errors) if errors else None,
            "wheel": self.occupancy(self._settings.wheel_size),
            "task_seconds": task_seconds,
        }
        return {"host": self._table.column("host")[0].as_py(), "kind": "hosts", "stats": stats}
