"""Extrapolation from a simulation to the resources that a larger load would need.

Each estimate is a product of measured numbers; `assumptions` lists what the products rely on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from purgatory_spark._errors import require_at_least
from purgatory_spark._outcomes.replay import ReplaySettings
from purgatory_spark._simulation.sizes import Sizes
from purgatory_spark._stream.job import StreamSettings
from purgatory_spark._traces.workload import Workload
from request_purgatory.errors import InvalidArgumentError

DAY_S = 86_400

#: Rows a second of a busy core of a stream with its JVM: 216,000 on two cores, with 10 million
#: requests of one key and as many events (the question `stream` of the benchmarks).
STREAM_ROWS_PER_CORE = 108_000
#: Bytes of a stream's checkpoint for each byte in its state store: 1,195 MB and 116 MB in the same
#: run. Spark keeps the changes and snapshots of the last 100 batches.
CHECKPOINT_FACTOR = 10.3


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
        require_at_least(1, executor_cores=self.executor_cores)


@dataclass(frozen=True)
class Measurement:
    """The results of a simulation that estimates are made from; CPU time is that of the workers."""

    requests: int
    cpu_seconds: float
    mean_wait_ms: float
    worker_bytes: int
    sizes: Sizes


@dataclass(frozen=True)
class Estimate:
    """One extrapolated number, and in words the product that it is."""

    name: str
    value: float
    unit: str
    formula: str


def extrapolate(
    workload: Workload,
    settings: ReplaySettings,
    measured: Measurement,
    target: TargetLoad,
    stream: StreamSettings,
) -> list[Estimate]:
    """Return the load, and what it needs; of cores, memory and storage the largest part first."""
    rate = target.per_day / DAY_S
    rate_per_host = workload.rate / workload.hosts
    sizes = measured.sizes
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
            "pending requests",
            rate * measured.mean_wait_ms / 1000,
            "requests",
            f"requests a second x {measured.mean_wait_ms:.1f} ms mean wait",
        ),
        *_cores(rate, measured, target),
        *_memory(rate, workload, settings, measured, target),
        *_stored(rate, workload, measured, stream),
        Estimate(
            "shuffle of a stream",
            rate * (sizes.packed_request + sizes.packed_event),
            "bytes/s",
            f"requests a second x ({sizes.packed_request:.1f} + {sizes.packed_event:.1f} bytes of "
            "a request and its event)",
        ),
    ]


def _largest_first(estimates: list[Estimate]) -> list[Estimate]:
    return sorted(estimates, key=lambda estimate: -estimate.value)


def _cores(rate: float, measured: Measurement, target: TargetLoad) -> list[Estimate]:
    cpu_s = measured.cpu_seconds / measured.requests
    busy = {
        "busy cores of the stream": (
            2 * rate / STREAM_ROWS_PER_CORE,
            f"2 x requests a second / {STREAM_ROWS_PER_CORE:,} rows a second of a busy core, with "
            "its JVM",
        ),
        "busy cores of the purgatories": (
            rate * cpu_s,
            f"requests a second x {cpu_s * 1e6:.2f} CPU seconds per million requests",
        ),
    }
    parts = [Estimate(name, value, "cores", how) for name, (value, how) in busy.items()]
    cores = math.ceil(sum(part.value for part in parts) / target.utilization)
    executors = math.ceil(cores / target.executor_cores)
    return [
        *_largest_first(parts),
        Estimate(
            "cores",
            float(cores),
            "cores",
            f"sum of the two above / {target.utilization:g} utilization",
        ),
        Estimate(
            "executors",
            float(executors),
            "executors",
            f"cores / {target.executor_cores} in an executor",
        ),
    ]


def _memory(
    rate: float,
    workload: Workload,
    settings: ReplaySettings,
    measured: Measurement,
    target: TargetLoad,
) -> list[Estimate]:
    request_bytes = measured.sizes.pending_request
    hosts = rate / (workload.rate / workload.hosts)
    executors = _cores(rate, measured, target)[-1].value
    return _largest_first(
        [
            Estimate(
                "memory of all workers",
                executors * target.executor_cores * measured.worker_bytes,
                "bytes",
                f"executors x {target.executor_cores} workers x peak memory of the largest one",
            ),
            Estimate(
                "memory of pending requests",
                rate * measured.mean_wait_ms / 1000 * request_bytes,
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
    )


def _stored(
    rate: float, workload: Workload, measured: Measurement, stream: StreamSettings
) -> list[Estimate]:
    sizes = measured.sizes.stream
    delay_s, retention_s = stream.watermark_delay_ms / 1000, stream.key_retention_ms / 1000
    timeout_s = workload.timeout_ms / 1000
    # By part: the bytes of one, how many there are, and how they are counted.
    parts = {
        "rows newer than the watermark": (
            sizes.request + sizes.event,
            rate * delay_s,
            f"requests a second x {delay_s:g} s (watermark_delay_ms) x bytes of a request and its "
            "event",
        ),
        "waiting requests": (
            sizes.waiting,
            rate * measured.mean_wait_ms / 1000,
            "pending requests x bytes of one with its keys",
        ),
        "ids in use": (
            sizes.request_id,
            rate * timeout_s,
            f"requests a second x {timeout_s:g} s (timeout) x bytes of an id",
        ),
        "retained keys": (
            sizes.key,
            rate * retention_s,
            f"requests a second x {retention_s:g} s (key_retention_ms) x bytes of a key, one key "
            "for each request",
        ),
    }
    state_store = sum(one.state_store * count for one, count, _ in parts.values())
    local_disk = sum(one.local_disk * count for one, count, _ in parts.values())
    return _largest_first(
        [
            Estimate(
                "stream: checkpoint",
                state_store * CHECKPOINT_FACTOR,
                "bytes",
                f"state stores x {CHECKPOINT_FACTOR:g}, of which Spark keeps 100 versions",
            ),
            Estimate(
                "stream: state stores",
                state_store,
                "bytes",
                "sum of the four parts, in base64",
            ),
            Estimate(
                "stream: executors' disks",
                local_disk,
                "bytes",
                "copies of the same four parts, without compression: "
                + ", ".join(f"{name} {one.local_disk:.1f}" for name, (one, *_) in parts.items())
                + " bytes each",
            ),
            *[
                Estimate(
                    f"stream: state stores: {name}",
                    one.state_store * count,
                    "bytes",
                    f"{how} ({one.state_store:.1f})",
                )
                for name, (one, count, how) in parts.items()
            ],
        ]
    )


def assumptions(workload: Workload, target: TargetLoad) -> list[str]:
    return [
        f"The load is even: {target.per_day:g} requests a day arrive at a constant rate, spread "
        "over hosts with this workload's rate. Peaks and hot hosts need more.",
        "Cost is proportional to the number of requests: other cores, hosts and executors are as "
        "fast as the measured ones.",
        f"Cores work {target.utilization:g} of the time; the rest is a reserve.",
        "CPU time of the purgatories is that of this run's Python workers: making the trace, "
        "condition, purgatory, timer. The network, parsing and a service's own work are not "
        "included.",
        f"A core of a stream processes {STREAM_ROWS_PER_CORE:,} rows a second, as measured on two "
        "cores with large batches and one key for each request, not in this run.",
        f"A checkpoint is {CHECKPOINT_FACTOR:g} times as large as the state store, as measured "
        "after 10 million requests, not in this run.",
        "The number of pending requests is rate x mean wait (Little's law), without peaks.",
        "The size of a pending request was measured on a block of this workload's requests in one "
        "purgatory.",
        "Rows are as large as in a block of this workload, and in a shard that has stored it; "
        "smaller batches compress less.",
        "The largest worker is that of this run. Those of a stream also hold a batch's rows.",
        "The stream has its default settings. Each request has one event, on a key of its own; "
        f"the {workload.keys:,} shared keys of a host, of which each request watches "
        f"{workload.shared_keys}, have no events.",
    ]
