"""Simulation of a cluster.

Every host's trace is made and replayed inside a Spark task, and only sums come out.
"""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory import __compiled__
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.analysis.analysis import bin_width_us
from request_purgatory.pipeline.analysis.histogram import RELATIVE_ERROR, Histogram, bounds_of
from request_purgatory.pipeline.outcomes import replay
from request_purgatory.pipeline.outcomes.replay import ReplaySettings
from request_purgatory.pipeline.simulation.extrapolation import (
    Measured,
    Sizes,
    Target,
    assumptions,
    extrapolate,
    measure_sizes,
    require_fit,
)
from request_purgatory.pipeline.simulation.host_simulation import (
    QUANTILES,
    Ends,
    Timeline,
    simulate_host,
    wait_quantiles,
)
from request_purgatory.pipeline.spark.memory import peak_memory_bytes
from request_purgatory.pipeline.spark.session import parallelism
from request_purgatory.pipeline.spark.worker_gc import settle_worker
from request_purgatory.pipeline.stream.job import StreamSettings
from request_purgatory.pipeline.traces.importers.delimited import read_written
from request_purgatory.pipeline.traces.output_folder import write_json
from request_purgatory.pipeline.traces.workload import START, Workload

#: Tasks to a core: enough that the last ones end together, and that progress is seen.
_TASKS_PER_CORE = 16

#: What happened on a host; `peak_watched_keys` was looked at once in `driver.SAMPLE_EVERY`
#: arrivals. Times are of the trace.
HOSTS = T.StructType(
    [
        T.StructField("host", T.StringType()),
        *[
            field
            for field in replay.HOSTS
            if not field.name.startswith(("estimate", "wheel", "task_seconds"))
        ],
        T.StructField("peak_watched_keys", T.LongType()),
        T.StructField("mean_ms", T.DoubleType()),
        *[T.StructField(name, T.DoubleType()) for name in QUANTILES],
        T.StructField("max_ms", T.DoubleType()),
        T.StructField("max_late_ms", T.DoubleType()),
        replay.HOSTS["wheel"],
        T.StructField("make_cpu_seconds", T.DoubleType()),
        T.StructField("replay_cpu_seconds", T.DoubleType()),
    ]
)

#: How many requests waited so long: a bucket of `histogram`, in microseconds.
_WAITS = T.StructType(
    [T.StructField(name, T.LongType()) for name in ("bucket", "completed", "expired")]
)

_TIMELINE = T.StructType([T.StructField(name, T.LongType()) for name in ("bin", *Timeline.COLUMNS)])

#: A Spark task: what it took in all, and its worker's peak of resident memory so far.
TASKS = T.StructType(
    [
        T.StructField("task", T.IntegerType()),
        T.StructField("worker", T.StringType()),
        T.StructField("hosts", T.LongType()),
        T.StructField("requests", T.LongType()),
        T.StructField("seconds", T.DoubleType()),
        T.StructField("cpu_seconds", T.DoubleType()),
        T.StructField("peak_memory_bytes", T.LongType()),
    ]
)

#: What `simulate` gives: rows of four kinds, each in its own column: "hosts" by host, "waits",
#: "timeline" and "tasks" by task.
SIMULATED = T.StructType(
    [
        T.StructField("kind", T.StringType()),
        T.StructField("hosts", HOSTS),
        T.StructField("waits", _WAITS),
        T.StructField("timeline", _TIMELINE),
        T.StructField("tasks", TASKS),
    ]
)


@dataclass(frozen=True)
class SimulationPlan:
    """What `purgatory simulate` does.

    Attributes:
        workload: drawn `host_by_host`.
        settings: of each host's purgatory.
        target: what to extrapolate to.
        partitions: Spark tasks; 16 to a core unless given, and never more than hosts.
        max_worker_mb: what one host may take in a Python worker.
    """

    workload: Workload
    settings: ReplaySettings = field(default_factory=ReplaySettings)
    target: Target = field(default_factory=Target)
    partitions: int | None = None
    max_worker_mb: int = 1024

    def __post_init__(self) -> None:
        if not self.workload.host_by_host:
            raise InvalidArgumentError("workload", "one that is drawn host_by_host", self.workload)
        for name in ("partitions", "max_worker_mb"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidArgumentError(name, "at least 1", value)

    def measure(self) -> Sizes:
        """The sizes of what is simulated.

        InvalidArgumentError if a host would not fit into `max_worker_mb`, with what would.
        """
        sizes = measure_sizes(self.workload, self.settings)
        require_fit(self.workload, self.settings, sizes, self.max_worker_mb)
        return sizes

    def parameters(self) -> dict[str, Any]:
        """All that was chosen, for the record."""
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
    """Make every host's trace and replay it at once, hosts side by side; nothing is shuffled, and no trace is stored.

    Hosts are the same whatever the number of tasks, and the same as `workload_trace` makes.

    Args:
        workload: drawn `host_by_host`.
        settings: of each host's purgatory.
        bin_us: width of the timeline's bins.
        partitions: how many tasks; as `SimulationPlan`.

    Returns:
        Rows of `SIMULATED`.
    """
    settings = settings or ReplaySettings()
    tasks = min(workload.hosts, partitions or _TASKS_PER_CORE * parallelism(spark))
    return spark.range(0, workload.hosts, 1, tasks).mapInArrow(
        _simulate_hosts(workload, settings, bin_us), SIMULATED
    )


def _simulate_hosts(
    workload: Workload, settings: ReplaySettings, bin_us: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def simulate_hosts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle_worker()
        begun, cpu = time.perf_counter(), time.process_time()
        ends = Ends(bin_us)
        hosts = []
        for batch in batches:
            for number in batch.column(0).to_pylist():
                row, ended = simulate_host(workload, number, settings, bin_us)
                hosts.append(row)
                ends.merge(ended)
        context = TaskContext.get()
        task = {
            "task": context.partitionId() if context is not None else 0,
            "worker": f"{socket.gethostname()}:{os.getpid()}",
            "hosts": len(hosts),
            "requests": sum(row["requests"] for row in hosts),
            "seconds": time.perf_counter() - begun,
            "cpu_seconds": time.process_time() - cpu,
            "peak_memory_bytes": peak_memory_bytes(),
        }
        kinds = {
            "hosts": hosts,
            "waits": _wait_rows(ends),
            "timeline": ends.timeline.rows(),
            "tasks": [task],
        }
        rows = [{"kind": kind, kind: row} for kind, found in kinds.items() for row in found]
        yield from pa.Table.from_pylist(rows, schema=_arrow_schema()).to_batches()

    return simulate_hosts


def _wait_rows(ends: Ends) -> list[dict[str, int]]:
    counts: dict[int, dict[str, int]] = {}
    for outcome, histogram in (("completed", ends.completed), ("expired", ends.expired)):
        for bucket, count in zip(*(column.tolist() for column in histogram.counts()), strict=True):
            counts.setdefault(bucket, {"bucket": bucket, "completed": 0, "expired": 0})[outcome] = (
                count
            )
    return list(counts.values())


def _arrow_schema() -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema: pa.Schema = to_arrow_schema(SIMULATED, timezone="UTC")
    return schema


def run_simulation(
    spark: SparkSession, plan: SimulationPlan, sizes: Sizes, target: Path
) -> dict[str, Any]:
    """Simulate into `target`, which is empty: `hosts/`, `waits/`, `timeline/`, `tasks/` and `summary.json`, which is returned.

    Args:
        sizes: what `plan.measure()` found.
    """
    workload = plan.workload
    bin_us = bin_width_us(
        round(workload.requests / workload.rate * 1_000_000) + workload.timeout_ms * 1000
    )
    simulated = simulate(spark, workload, plan.settings, bin_us=bin_us, partitions=plan.partitions)
    simulated = simulated.persist(StorageLevel.DISK_ONLY)
    begun = time.perf_counter()
    simulated.count()
    seconds = time.perf_counter() - begun

    def kind(name: str) -> DataFrame:
        return simulated.where(F.col("kind") == name).select(f"{name}.*")

    def summed(name: str, by: str) -> pa.Table:
        columns = [column for column in kind(name).columns if column != by]
        return (
            kind(name)
            .groupBy(by)
            .agg(*[F.sum(column).alias(column) for column in columns])
            .toArrow()
            .sort_by(by)
        )

    kind("hosts").coalesce(1).write.parquet(str(target / "hosts"))
    kind("tasks").coalesce(1).write.parquet(str(target / "tasks"))
    waits, timeline = summed("waits", "bucket"), summed("timeline", "bin")
    simulated.unpersist()
    spark.createDataFrame(_waits_table(waits)).coalesce(1).write.parquet(str(target / "waits"))
    spark.createDataFrame(_timeline_table(timeline, bin_us)).coalesce(1).write.parquet(
        str(target / "timeline")
    )
    summary = _summary(spark, plan, sizes, target, _histogram(waits), seconds)
    summary["timeline_bin_ms"] = bin_us / 1000
    write_json(target / "summary.json", summary)
    return summary


def _histogram(waits: pa.Table) -> Histogram:
    histogram = Histogram()
    buckets = np.asarray(waits.column("bucket").to_numpy(), dtype=np.int64)
    for outcome in ("completed", "expired"):
        histogram.add_counts(buckets, np.asarray(waits.column(outcome).to_numpy(), dtype=np.int64))
    return histogram


def _waits_table(waits: pa.Table) -> pa.Table:
    first, after = bounds_of(np.asarray(waits.column("bucket").to_numpy(), dtype=np.int64))
    return waits.append_column("from_ms", pa.array(first / 1000)).append_column(
        "to_ms", pa.array(after / 1000)
    )


def _timeline_table(timeline: pa.Table, bin_us: int) -> pa.Table:
    start_us = int(START.timestamp()) * 1_000_000
    bins, arrived, completed, expired = (
        np.asarray(column.to_numpy(), dtype=np.int64) for column in timeline.columns
    )
    return pa.table(
        {
            "from_at": pa.array(start_us + bins * bin_us, pa.timestamp("us", tz="UTC")),
            "arrived": arrived,
            "completed": completed,
            "expired": expired,
            "pending": np.cumsum(arrived - completed - expired),
        }
    )


def _summary(
    spark: SparkSession,
    plan: SimulationPlan,
    sizes: Sizes,
    target: Path,
    waits: Histogram,
    seconds: float,
) -> dict[str, Any]:
    hosts = read_written(spark, target / "hosts")
    counts = (
        "requests",
        "events",
        "completed",
        "expired",
        "callback_errors",
        "purges",
        "purged_entries",
    )
    peaks = ("peak_pending", "peak_queued", "peak_watched_keys", "max_ms", "max_late_ms")
    sums = _first(
        hosts.agg(
            *[
                F.sum(name).alias(name)
                for name in (*counts, "make_cpu_seconds", "replay_cpu_seconds")
            ],
            *[F.max(name).alias(name) for name in peaks],
            (F.sum(F.col("mean_ms") * F.col("requests")) / F.sum("requests")).alias("mean_ms"),
        )
    )
    costs = _first(
        read_written(spark, target / "tasks").agg(
            F.count("*").alias("tasks"),
            F.count_distinct("worker").alias("workers"),
            F.sum("cpu_seconds").alias("cpu_seconds"),
            F.max("seconds").alias("longest_task_seconds"),
            F.max("peak_memory_bytes").alias("peak_worker_bytes"),
        )
    )
    levels = (
        hosts.select(F.explode("wheel").alias("level"))
        .select("level.*")
        .groupBy("tick_ms", "buckets")
    )
    wheel = (
        levels.agg(F.avg("mean_used").alias("mean_used"), F.max("peak_used").alias("peak_used"))
        .orderBy("tick_ms")
        .collect()
    )
    requests, cpu = sums["requests"], costs["cpu_seconds"]
    cores = parallelism(spark)
    measured = Measured(requests, cpu, sums["mean_ms"], costs["peak_worker_bytes"], sizes)
    stream = StreamSettings()
    figures = extrapolate(
        plan.workload,
        plan.settings,
        measured,
        plan.target,
        delay_ms=stream.delay_ms,
        remember_ms=stream.remember_ms,
    )
    return {
        "parameters": plan.parameters(),
        "machine": {
            "cores": cores,
            "python": platform.python_version(),
            "core": "compiled" if __compiled__ else "interpreted",
        },
        "hosts": plan.workload.hosts,
        "ends": {
            name: sums[name]
            for name in ("requests", "events", "completed", "expired", "callback_errors")
        },
        "waits": {
            "mean_ms": sums["mean_ms"],
            **wait_quantiles(waits, round(sums["max_ms"] * 1000)),
            "max_ms": sums["max_ms"],
            "max_late_ms": sums["max_late_ms"],
            "relative_error": RELATIVE_ERROR,
        },
        "purgatory": {
            **{
                name: sums[name]
                for name in (
                    "peak_pending",
                    "peak_queued",
                    "peak_watched_keys",
                    "purges",
                    "purged_entries",
                )
            },
            "wheel": [level.asDict() for level in wheel],
        },
        "cost": {
            "seconds": seconds,
            **costs,
            "make_cpu_seconds": sums["make_cpu_seconds"],
            "replay_cpu_seconds": sums["replay_cpu_seconds"],
            "requests_per_second": requests / seconds,
            "requests_per_cpu_second": requests / cpu,
            "requests_per_replay_cpu_second": requests / sums["replay_cpu_seconds"],
            "cpu_seconds_per_million": cpu / requests * 1e6,
            "busy_share": cpu / (seconds * cores),
        },
        "sizes": asdict(sizes),
        "extrapolation": [figure.parameters() for figure in figures],
        "assumptions": assumptions(plan.workload, plan.target),
    }


def _first(table: DataFrame) -> dict[str, Any]:
    (row,) = table.collect()
    return row.asDict()
