"""Simulation of a cluster: Spark tasks make and replay its hosts' traces without storing them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._analysis.aggregates import QUANTILES
from purgatory_spark._analysis.histogram import Histogram, bounds_of
from purgatory_spark._analysis.time_bins import bin_width_us
from purgatory_spark._errors import require_at_least
from purgatory_spark._outcomes import replay
from purgatory_spark._outcomes.replay import ReplaySettings
from purgatory_spark._output_folder import write_json
from purgatory_spark._simulation.extrapolation import TargetLoad
from purgatory_spark._simulation.host_simulation import OutcomeCounts, Timeline, simulate_host
from purgatory_spark._simulation.sizes import Sizes, measure_sizes, require_simulated_host_fits
from purgatory_spark._simulation.summary import summarize_simulation
from purgatory_spark._spark.arrays import Ints
from purgatory_spark._spark.memory import peak_memory_bytes
from purgatory_spark._spark.schemas import fields_of, utc_schema
from purgatory_spark._spark.session import parallelism
from purgatory_spark._spark.spark_tables import read_spark_table, write_spark_table
from purgatory_spark._spark.worker_gc import freeze_imported_objects
from purgatory_spark._traces.workload import START, Workload
from request_purgatory.errors import InvalidArgumentError

#: Default tasks for each core: enough that the last ones end at about the same time, and that the
#: progress is visible.
_TASKS_PER_CORE = 16

#: One row for each host, with times of the trace. `peak_watched_keys` is sampled, once in
#: `replay_driver.SAMPLE_EVERY` arrivals.
HOSTS = T.StructType(
    [
        *fields_of(T.StringType(), "host"),
        *[
            field
            for field in replay.HOSTS
            if not field.name.startswith(("estimate", "wheel", "task_seconds"))
        ],
        *fields_of(T.LongType(), "peak_watched_keys"),
        *fields_of(T.DoubleType(), "mean_ms", *QUANTILES, "max_ms", "max_late_ms"),
        replay.HOSTS["wheel"],
        *fields_of(T.DoubleType(), "make_cpu_seconds", "replay_cpu_seconds"),
    ]
)

#: Requests by waiting time: `bucket` is a bucket of `histogram`, of microseconds.
WAITS = T.StructType(fields_of(T.LongType(), "bucket", "completed", "expired"))

#: Arrivals and ends by bin of time.
TIMELINE = T.StructType(fields_of(T.LongType(), "bin", *Timeline.COLUMNS))

#: One row for each Spark task. `peak_memory_bytes` is the peak of its Python worker so far.
TASKS = T.StructType(
    [
        *fields_of(T.IntegerType(), "task"),
        *fields_of(T.StringType(), "worker"),
        *fields_of(T.LongType(), "hosts", "requests"),
        *fields_of(T.DoubleType(), "seconds", "cpu_seconds"),
        *fields_of(T.LongType(), "peak_memory_bytes"),
    ]
)

#: The four tables in one data frame. `kind` names the table that a row belongs to and the only
#: other column that is not null. `waits` and `timeline` have rows from each task, to be added up.
SIMULATED = T.StructType(
    [
        T.StructField("kind", T.StringType()),
        T.StructField("hosts", HOSTS),
        T.StructField("waits", WAITS),
        T.StructField("timeline", TIMELINE),
        T.StructField("tasks", TASKS),
    ]
)


@dataclass(frozen=True)
class SimulationPlan:
    """The settings of a simulation.

    Attributes:
        workload: The cluster's workload, drawn `host_by_host`.
        settings: The purgatory of each host.
        target: The load to extrapolate to.
        partitions: Number of Spark tasks, at most one for each host; 16 for each core unless
            given.
        max_worker_mb: Memory limit for one host in a Python worker.
    """

    workload: Workload
    settings: ReplaySettings = field(default_factory=ReplaySettings)
    target: TargetLoad = field(default_factory=TargetLoad)
    partitions: int | None = None
    max_worker_mb: int = 1024

    def __post_init__(self) -> None:
        if not self.workload.host_by_host:
            raise InvalidArgumentError(
                "workload", "drawn host_by_host to be simulated", self.workload
            )
        if self.partitions is not None:
            require_at_least(1, partitions=self.partitions)
        require_at_least(1, max_worker_mb=self.max_worker_mb)

    def measure(self) -> Sizes:
        """Measure the sizes of requests and rows, and check that a host fits into memory.

        Returns:
            The sizes.

        Raises:
            InvalidArgumentError: A host does not fit into `max_worker_mb`; the message says what
                would fit.
        """
        sizes = measure_sizes(self.workload, self.settings)
        require_simulated_host_fits(self.workload, self.settings, sizes, self.max_worker_mb)
        return sizes

    def parameters(self) -> dict[str, Any]:
        """Return the settings that determine the results, as JSON values."""
        return {
            "workload": self.workload.parameters(),
            "purgatory": self.settings.parameters(),
            "target": asdict(self.target),
            "max_worker_mb": self.max_worker_mb,
        }


def simulate(
    spark: SparkSession,
    workload: Workload,
    settings: ReplaySettings | None = None,
    *,
    bin_us: int,
    partitions: int | None = None,
) -> DataFrame:
    """Make and replay the trace of each host, without a shuffle and without storing traces.

    A host's trace is the one that `workload_trace` makes, and does not depend on `partitions`.

    Args:
        spark: The session.
        workload: A workload that is drawn `host_by_host`.
        settings: The purgatory of each host.
        bin_us: Width of the timeline's bins in microseconds.
        partitions: Number of tasks, as in `SimulationPlan`.

    Returns:
        Rows of `SIMULATED`.
    """
    settings = settings or ReplaySettings()
    tasks = min(workload.hosts, partitions or _TASKS_PER_CORE * parallelism(spark))
    simulate_tasks = partial(_simulate_hosts, workload=workload, settings=settings, bin_us=bin_us)
    return spark.range(0, workload.hosts, 1, tasks).mapInArrow(simulate_tasks, SIMULATED)


def _simulate_hosts(
    batches: Iterator[pa.RecordBatch], workload: Workload, settings: ReplaySettings, bin_us: int
) -> Iterator[pa.RecordBatch]:
    freeze_imported_objects()
    began, cpu_began = time.perf_counter(), time.process_time()
    counts = OutcomeCounts(bin_us)
    hosts = []
    for batch in batches:
        for number in batch.column(0).to_pylist():
            host, host_counts = simulate_host(workload, number, settings, bin_us)
            hosts.append(host)
            counts.merge(host_counts)
    context = TaskContext.get()
    task = {
        "task": context.partitionId() if context is not None else 0,
        "worker": f"{socket.gethostname()}:{os.getpid()}",
        "hosts": len(hosts),
        "requests": sum(host["requests"] for host in hosts),
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "peak_memory_bytes": peak_memory_bytes(),
    }
    tables = {
        "hosts": hosts,
        "waits": counts.wait_rows(),
        "timeline": counts.timeline.rows(),
        "tasks": [task],
    }
    rows = [{"kind": kind, kind: row} for kind, table in tables.items() for row in table]
    yield from pa.Table.from_pylist(rows, schema=utc_schema(SIMULATED)).to_batches()


def run_simulation(
    spark: SparkSession, plan: SimulationPlan, sizes: Sizes, target: Path
) -> dict[str, Any]:
    """Carry out a plan, and write its Parquet tables and `summary.json` into an empty folder."""
    workload = plan.workload
    bin_us = bin_width_us(
        round(workload.requests / workload.rate * 1_000_000) + workload.timeout_ms * 1000
    )
    simulated = simulate(spark, workload, plan.settings, bin_us=bin_us, partitions=plan.partitions)
    simulated = simulated.persist(StorageLevel.DISK_ONLY)
    began = time.perf_counter()
    simulated.count()
    seconds = time.perf_counter() - began

    for name in ("hosts", "tasks"):
        write_spark_table(_table(simulated, name).coalesce(1), target / name)
    waits = _summed(_table(simulated, "waits"), "bucket")
    timeline = _summed(_table(simulated, "timeline"), "bin")
    simulated.unpersist()
    for name, table in (
        ("waits", _with_bounds(waits)),
        ("timeline", _with_times(timeline, bin_us)),
    ):
        write_spark_table(spark.createDataFrame(table).coalesce(1), target / name)
    summary = summarize_simulation(
        read_spark_table(spark, target / "hosts"),
        read_spark_table(spark, target / "tasks"),
        _histogram(waits),
        seconds,
        workload=workload,
        settings=plan.settings,
        target=plan.target,
        sizes=sizes,
    )
    summary = {"parameters": plan.parameters(), **summary, "timeline_bin_ms": bin_us / 1000}
    write_json(target / "summary.json", summary)
    return summary


def _table(simulated: DataFrame, kind: str) -> DataFrame:
    return simulated.where(F.col("kind") == kind).select(f"{kind}.*")


def _summed(table: DataFrame, by: str) -> pa.Table:
    """Return the sums of all other columns for each value of `by`, ascending."""
    sums = [F.sum(column).alias(column) for column in table.columns if column != by]
    return table.groupBy(by).agg(*sums).toArrow().sort_by(by)


def _histogram(waits: pa.Table) -> Histogram:
    histogram = Histogram()
    buckets = _column(waits, "bucket")
    for outcome in ("completed", "expired"):
        histogram.add_counts(buckets, _column(waits, outcome))
    return histogram


def _with_bounds(waits: pa.Table) -> pa.Table:
    """Return the table with each bucket's bounds in milliseconds, `from_ms` and `to_ms`."""
    first, after = bounds_of(_column(waits, "bucket"))
    with_lower = waits.append_column("from_ms", pa.array(first / 1000))
    return with_lower.append_column("to_ms", pa.array(after / 1000))


def _with_times(timeline: pa.Table, bin_us: int) -> pa.Table:
    """Return the timeline with times instead of bins, and pending requests at each bin's end."""
    start_us = int(START.timestamp()) * 1_000_000
    counts = {name: _column(timeline, name) for name in ("arrived", "completed", "expired")}
    from_us = start_us + _column(timeline, "bin") * bin_us
    pending = np.cumsum(counts["arrived"] - counts["completed"] - counts["expired"])
    return pa.table(
        {
            "from_at": pa.array(from_us, pa.timestamp("us", tz="UTC")),
            **counts,
            "pending": pending,
        }
    )


def _column(table: pa.Table, name: str) -> Ints:
    return np.asarray(table.column(name).to_numpy(), dtype=np.int64)
