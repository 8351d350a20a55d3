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
