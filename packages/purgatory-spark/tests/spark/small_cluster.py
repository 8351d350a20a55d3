"""A workload of a small cluster, for simulations."""

from __future__ import annotations

from dataclasses import replace

from purgatory_spark._traces.workload import LOW_TIMEOUT

#: Three hosts of two blocks each.
CLUSTER = replace(
    LOW_TIMEOUT,
    name="cluster",
    hosts=3,
    requests=3 * 9_000,
    rate=7_500.0,
    timeout_ms=100,
    keys=50,
    seed=7,
    host_by_host=True,
)

#: Columns of a host that a simulation and a replay have in common.
COMMON = [
    "host",
    "design",
    "requests",
    "events",
    "completed",
    "expired",
    "peak_pending",
    "peak_queued",
    "purges",
    "tries",
    "purged_entries",
    "callbacks",
    "callback_errors",
    "wheel",
]
