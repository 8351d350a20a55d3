"""The summary of a simulation: outcomes, waiting times, purgatory, cost and extrapolation."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis.histogram import RELATIVE_ERROR, Histogram
from purgatory_spark._outcomes.replay import ReplaySettings
from purgatory_spark._simulation.extrapolation import (
    Measurement,
    TargetLoad,
    assumptions,
    extrapolate,
)
from purgatory_spark._simulation.host_simulation import wait_quantiles
from purgatory_spark._simulation.sizes import Sizes
from purgatory_spark._spark.session import parallelism
from purgatory_spark._stream.job import StreamSettings
from purgatory_spark._traces.workload import Workload
from request_purgatory import __compiled__

_ENDS = ("requests", "events", "completed", "expired", "callback_errors")
_PURGES = ("purges", "purged_entries")
_CPU_TIMES = ("make_cpu_seconds", "replay_cpu_seconds")
_PEAKS = ("peak_pending", "peak_queued", "peak_watched_keys")


def summarize_simulation(
    hosts: DataFrame,
    tasks: DataFrame,
    waits: Histogram,
    seconds: float,
    *,
    workload: Workload,
    settings: ReplaySettings,
    target: TargetLoad,
    sizes: Sizes,
) -> dict[str, Any]:
    """Return the content of `summary.json`, without parameters; waits are in microseconds."""
    totals = _totals(hosts)
    task_totals = _task_totals(tasks)
    requests, cpu_seconds = totals["requests"], task_totals["cpu_seconds"]
    cores = parallelism(hosts.sparkSession)
    estimates = extrapolate(
        workload,
        settings,
        Measurement(
            requests, cpu_seconds, totals["mean_ms"], task_totals["peak_worker_bytes"], sizes
        ),
        target,
        StreamSettings(),
    )
    return {
        "machine": {
            "cores": cores,
            "python": platform.python_version(),
            "core": "compiled" if __compiled__ else "interpreted",
        },
        "hosts": workload.hosts,
        "ends": {name: totals[name] for name in _ENDS},
        "waits": {
            "mean_ms": totals["mean_ms"],
            **wait_quantiles(waits, round(totals["max_ms"] * 1000)),
            "max_ms": totals["max_ms"],
            "max_late_ms": totals["max_late_ms"],
            "relative_error": RELATIVE_ERROR,
        },
        "purgatory": {
            **{name: totals[name] for name in (*_PEAKS, *_PURGES)},
            "wheel": _wheel_levels(hosts),
        },
        "cost": {
            "seconds": seconds,
            **task_totals,
            **{name: totals[name] for name in _CPU_TIMES},
            "requests_per_second": requests / seconds,
            "requests_per_cpu_second": requests / cpu_seconds,
            "requests_per_replay_cpu_second": requests / totals["replay_cpu_seconds"],
            "cpu_seconds_per_million": cpu_seconds / requests * 1e6,
            "busy_share": cpu_seconds / (seconds * cores),
        },
        "sizes": asdict(sizes),
        "extrapolation": [asdict(estimate) for estimate in estimates],
        "assumptions": assumptions(workload, target),
    }


def _totals(hosts: DataFrame) -> dict[str, Any]:
    sums = (*_ENDS, *_PURGES, *_CPU_TIMES)
    maxima = (*_PEAKS, "max_ms", "max_late_ms")
    return _single_row(
        hosts.agg(
            *[F.sum(name).alias(name) for name in sums],
            *[F.max(name).alias(name) for name in maxima],
            (F.sum(F.col("mean_ms") * F.col("requests")) / F.sum("requests")).alias("mean_ms"),
        )
    )


def _task_totals(tasks: DataFrame) -> dict[str, Any]:
    return _single_row(
        tasks.agg(
            F.count("*").alias("tasks"),
            F.count_distinct("worker").alias("workers"),
            F.sum("cpu_seconds").alias("cpu_seconds"),
            F.max("seconds").alias("longest_task_seconds"),
            F.max("peak_memory_bytes").alias("peak_worker_bytes"),
        )
    )


def _wheel_levels(hosts: DataFrame) -> list[dict[str, Any]]:
    """Return the occupied buckets of each wheel level over all hosts, finest first."""
    levels = (
        hosts.select(F.explode("wheel").alias("level"))
        .select("level.*")
        .groupBy("tick_ms", "buckets")
        .agg(F.avg("mean_used").alias("mean_used"), F.max("peak_used").alias("peak_used"))
    )
    return [level.asDict() for level in levels.orderBy("tick_ms").collect()]


def _single_row(table: DataFrame) -> dict[str, Any]:
    (row,) = table.collect()
    return row.asDict()
