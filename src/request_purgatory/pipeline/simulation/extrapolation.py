"""Extrapolation from a simulation to the resources that a larger load would need.

Each estimate is a product of measured numbers; `assumptions` lists what the products rely on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.outcomes.replay import ReplaySettings
from request_purgatory.pipeline.simulation.sizes import Sizes
from request_purgatory.pipeline.traces.workload import Workload

DAY_S = 86_400


@dataclass(frozen=True)
class TargetLoad:
    """The load to extrapolate to.

    Attributes:
        per_day: Requests a day.
        utilization: Share of the time that cores are busy, above 0 and up to 1.
        executor_cores: Cores of one executor, each with a Python worker.
    """

    per_day: float = 1e12
    utilization: float = 0.7
    executor_cores: int = 4

    def __post_init__(self) -> None:
        if not (self.per_day > 0 and math.isfinite(self.per_day)):
            raise InvalidArgumentError(
                "target_per_day", "a positive number of requests a day", self.per_day
            )
        if not 0 < self.utilization <= 1:
            raise InvalidArgumentError("utilization", "above 0 and up to 1", self.utilization)
        if self.executor_cores < 1:
            raise InvalidArgumentError("executor_cores", "at least 1", self.executor_cores)


@dataclass(frozen=True)
class Measurement:
    """The results of a simulation that estimates are made from.

    Attributes:
        requests: Number of simulated requests.
        cpu_seconds: CPU time of the Python workers, for making and replaying the traces.
        mean_wait_ms: Mean waiting time of all requests.
        worker_bytes: Peak memory of the largest Python worker.
        sizes: Measured sizes of requests and rows.
    """

    requests: int
    cpu_seconds: float
    mean_wait_ms: float
    worker_bytes: int
    sizes: Sizes


@dataclass(frozen=True)
class Estimate:
    """One extrapolated number.

    Attributes:
        name: The resource.
        value: The amount, in `unit`.
        unit: The unit.
        formula: The product that the value is, in words.
    """

    name: str
    value: float
    unit: str
    formula: str


def extrapolate(
    workload: Workload,
    settings: ReplaySettings,
    measured: Measurement,
    target: TargetLoad,
    *,
    watermark_delay_ms: int,
    key_retention_ms: int,
) -> list[Estimate]:
    """Estimate the resources that the target load would need.

    Args:
        workload: The simulated workload.
        settings: The purgatory of each host.
        measured: The results of the simulation.
        target: The load to extrapolate to.
        watermark_delay_ms: The stream's setting of this name.
        key_retention_ms: The stream's setting of this name.

    Returns:
        The estimates, for printing in this order.
    """
    rate = target.per_day / DAY_S
    return [
        *_machine_estimates(rate, workload, measured, target),
        *_memory_estimates(rate, workload, settings, measured),
        *_stream_estimates(rate, workload, measured, watermark_delay_ms, key_retention_ms),
    ]


def _machine_estimates(
    rate: float, workload: Workload, measured: Measurement, target: TargetLoad
) -> list[Estimate]:
    rate_per_host = workload.rate / workload.hosts
    cpu_s = measured.cpu_seconds / measured.requests
    busy = rate * cpu_s
    cores = math.ceil(busy / target.utilization)
    executors = math.ceil(cores / target.executor_cores)
    executor_bytes = target.executor_cores * measured.worker_bytes
    return [
        Estimate(
            "requests a second", rate, "1/s", f"{target.per_day:g} requests a day / {DAY_S:,} s"
        ),
        Estimate(
            "hosts",
            rate / rate_per_host,
            "hosts",
            f"requests a second / {rate_per_host:,.0f} on each host",
        ),
        Estimate(
            "busy cores",
            busy,
            "cores",
            f"requests a second x {cpu_s * 1e6:.2f} CPU seconds per million requests",
        ),
        Estimate(
            "cores", float(cores), "cores", f"busy cores / {target.utilization:g} utilization"
        ),
        Estimate(
            "executors",
            float(executors),
            "executors",
            f"cores / {target.executor_cores} in an executor",
        ),
        Estimate(
            "memory of an executor's workers",
            float(executor_bytes),
            "bytes",
            f"{target.executor_cores} workers x peak memory of the largest one",
        ),
        Estimate(
            "memory of all workers",
            float(executors * executor_bytes),
            "bytes",
            "executors x memory of an executor's workers",
        ),
    ]


def _memory_estimates(
    rate: float, workload: Workload, settings: ReplaySettings, measured: Measurement
) -> list[Estimate]:
    request_bytes = measured.sizes.pending_request
    hosts = rate / (workload.rate / workload.hosts)
    pending = rate * measured.mean_wait_ms / 1000
    return [
        Estimate(
            "pending requests",
            pending,
            "requests",
            f"requests a second x {measured.mean_wait_ms:.1f} ms mean wait",
        ),
        Estimate(
            "memory of pending requests",
            pending * request_bytes,
            "bytes",
            f"pending requests x {request_bytes:.0f} bytes",
        ),
        Estimate(
            "memory of ended requests before a purge",
            hosts * settings.purge_interval * request_bytes,
            "bytes",
            f"at most hosts x {settings.purge_interval:,} (purge_interval) "
            f"x {request_bytes:.0f} bytes",
        ),
    ]


def _stream_estimates(
    rate: float,
    workload: Workload,
    measured: Measurement,
    watermark_delay_ms: int,
    key_retention_ms: int,
) -> list[Estimate]:
    sizes = measured.sizes
    wait_s = measured.mean_wait_ms / 1000
    shuffle = rate * (sizes.packed_request + sizes.packed_event)
    unread = shuffle * watermark_delay_ms / 1000
    remaining_s = max(0.0, workload.timeout_ms / 1000 - wait_s)
    waiting = rate * wait_s * sizes.packed_request + rate * remaining_s * sizes.packed_id
    keys = rate * key_retention_ms / 1000 * sizes.packed_key
    return [
        Estimate(
            "shuffle",
            shuffle,
            "bytes/s",
            f"requests a second x ({sizes.packed_request:.1f} + {sizes.packed_event:.1f} bytes "
            "of a request and its event)",
        ),
        Estimate(
            "stream state: rows newer than the watermark",
            unread,
            "bytes",
            f"shuffle x {watermark_delay_ms / 1000:g} s (watermark_delay_ms)",
        ),
        Estimate(
            "stream state: waiting requests",
            waiting,
            "bytes",
            f"pending requests x {sizes.packed_request:.1f} bytes, and ids of ended requests "
            f"until their deadlines x {sizes.packed_id:.1f} bytes",
        ),
        Estimate(
            "stream state: retained keys",
            keys,
            "bytes",
            f"requests a second x {key_retention_ms / 1000:g} s (key_retention_ms) "
            f"x {sizes.packed_key:.1f} bytes, one key for each request",
        ),
        Estimate("stream state", unread + waiting + keys, "bytes", "sum of the three above"),
    ]


def assumptions(workload: Workload, target: TargetLoad) -> list[str]:
    """Return what the estimates assume, a sentence each.

    Args:
        workload: The simulated workload.
        target: The load to extrapolate to.
    """
    return [
        f"The load is even: {target.per_day:g} requests a day arrive at a constant rate, spread "
        "over hosts with this workload's rate. Peaks and hot hosts need more.",
        "Cost is proportional to the number of requests: other cores, hosts and executors are as "
        "fast as the measured ones.",
        f"Cores work {target.utilization:g} of the time; the rest is a reserve.",
        "CPU time is that of this run's Python workers: making the trace, condition, purgatory, "
        "timer. The JVM, the network, parsing and a service's own work are not included.",
        "The number of pending requests is rate x mean wait (Little's law), without peaks.",
        "The size of a pending request was measured on a block of this workload's requests in one "
        "purgatory.",
        "Rows are as large as in a block of this workload, in Arrow with zstd; smaller batches "
        "compress less.",
        "The stream has its default settings. Each request has one event, on a key of its own; "
        f"the {workload.keys:,} shared keys of a host, of which each request watches "
        f"{workload.shared_keys}, have no events.",
    ]
