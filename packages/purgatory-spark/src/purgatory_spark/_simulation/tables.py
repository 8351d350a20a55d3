"""The tables of a simulation and their columns."""

from __future__ import annotations

from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._outcomes import replay
from purgatory_spark._simulation.host_simulation import QUANTILES, Timeline

#: One row for each host, with times of the trace. `peak_watched_keys` is sampled, once in
#: `replay_driver.SAMPLE_EVERY` arrivals.
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

#: Requests by waiting time: `bucket` is a bucket of `histogram`, of microseconds.
WAITS = T.StructType(
    [T.StructField(name, T.LongType()) for name in ("bucket", "completed", "expired")]
)

#: Arrivals and ends by bin of time.
TIMELINE = T.StructType([T.StructField(name, T.LongType()) for name in ("bin", *Timeline.COLUMNS)])

#: One row for each Spark task. `peak_memory_bytes` is the peak of its Python worker so far.
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
