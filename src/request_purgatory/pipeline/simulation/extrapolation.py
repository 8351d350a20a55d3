"""From what a simulation measured to what a cluster of any rate would need.

Plain products, with their assumptions.
"""

from __future__ import annotations

import gc
import math
import sys
import tracemalloc
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.outcomes.condition import Ints
from request_purgatory.pipeline.outcomes.replay import ReplaySettings
from request_purgatory.pipeline.outcomes.replay_driver import EventPart, RequestPart
from request_purgatory.pipeline.simulation.host_simulation import SimulatedHost, parts
from request_purgatory.pipeline.spark.memory import traced
from request_purgatory.pipeline.traces.workload import HOST_BLOCK, Workload, host_blocks

DAY_S = 86_400
_MB = 2**20
#: As the stream packs its rows.
_PACKING = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))


@dataclass(frozen=True)
class Target:
    """The load to extrapolate to.

    Attributes:
        per_day: requests a day.
        utilization: the share of their time that cores are to be busy, above 0 and up to 1.
        executor_cores: cores of one executor, each with a Python worker.
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
class Sizes:
    """Bytes of one of each, measured on a block of the workload.

    Attributes:
        pending_request: in a purgatory: the operation, its keys, its entries in watcher lists and
            timer.
        coming_event: in a simulation, of a request that has arrived.
        packed_request, packed_event: a row on its way through a shuffle, in Arrow with zstd.
        packed_key: what a stream remembers of a key: its hash, total, largest amount and last time,
            packed likewise.
        packed_id: what it remembers of an ended request until its deadline: the id's hash and the
            deadline.
    """

    pending_request: float
    coming_event: float
    packed_request: float
    packed_event: float
    packed_key: float
    packed_id: float


def measure_sizes(workload: Workload, settings: ReplaySettings) -> Sizes:
    """The sizes of this workload's rows and pending requests, here and now."""
    # One host and a block of requests, whatever the workload's number: a size is a mean, and wants
    # many.
    one = replace(
        workload,
        hosts=1,
        requests=HOST_BLOCK,
        rate=workload.rate / workload.hosts,
        host_by_host=True,
    )
    (block,) = host_blocks(one, 0)
    count = len(block.arrived_us)
    # Hashes do not compress: any such numbers have their size.
    hashes = np.random.default_rng(workload.seed).integers(-(2**63), 2**63 - 1, count)
    amounts = np.full(count, workload.amount)
    key_rows = pa.record_batch(
        [hashes, amounts, amounts, block.occurred_us], names=["key", "total", "high", "last_us"]
    )
    id_rows = pa.record_batch(
        [hashes, block.arrived_us + workload.timeout_ms * 1000], names=["id", "until_us"]
    )
    return Sizes(
        pending_request=_pending_bytes(one, settings) / count,
        coming_event=sys.getsizeof(block.own_keys()[0].as_py())
        + block.occurred_us.itemsize
        + np.dtype(object).itemsize,
        packed_request=_packed_bytes(block.requests()) / count,
        packed_event=_packed_bytes(block.events()) / count,
        packed_key=_packed_bytes(key_rows) / count,
        packed_id=_packed_bytes(id_rows) / count,
    )


def _packed_bytes(rows: pa.RecordBatch) -> int:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_PACKING) as writer:
        writer.write_batch(rows)
    size: int = sink.getvalue().size
    return size


def _pending_bytes(workload: Workload, settings: ReplaySettings) -> int:
    """What a block of requests takes that all arrive at once and wait for nothing."""
    nothing = EventPart(np.zeros(0, dtype=np.int64), [], [])
    with traced():
        before, _ = tracemalloc.get_traced_memory()
        arrived: list[Ints] = []
        watched: list[list[str] | None] = []
        for requests, _ in parts(host_blocks(workload, 0)):
            arrived.append(requests.arrived_us)
            watched += requests.watch_keys
        count = len(watched)
        at_once = np.full(count, arrived[0][0])
        host = SimulatedHost(settings, int(at_once[0]), 1_000_000)
        timeouts = [max(1, workload.timeout_ms)] * count
        host.play(
            RequestPart(
                at_once, timeouts, watched, ["count"] * count, [1.0] * count, ["any"] * count
            ),
            nothing,
        )
        del requests, arrived, watched, timeouts, at_once
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    host.finish()
    return after - before


def require_fit(
    workload: Workload, settings: ReplaySettings, sizes: Sizes, max_worker_mb: int
) -> None:
    """InvalidArgumentError if one host, as it is simulated, would not fit into a Python worker's `max_worker_mb`."""
    per_host, rate = workload.requests // workload.hosts, workload.rate / workload.hosts
    pending = min(per_host, rate * workload.expected_wait_ms / 1000)
    coming = min(per_host, rate * workload.expected_service_ms / 1000)
    growing = pending * sizes.pending_request + coming * sizes.coming_event
    # A block that is played while the next one is made, and ended requests that are not purged yet.
    fixed = min(per_host, 2 * HOST_BLOCK + settings.purge_interval) * sizes.pending_request
    limit = max_worker_mb * _MB
    if fixed + growing <= limit:
        return
    size = f"{pending:,.0f} pending requests of a host and {coming:,.0f} events to come take about {growing / _MB:,.0f} MB"
    around = f"{fixed / _MB:,.0f} MB for two blocks and for ended requests"
    if fixed >= limit:
        raise InvalidArgumentError(
            "max_worker_mb", f"more than {fixed / _MB:,.0f}, as {around} are needed", max_worker_mb
        )
    fits = rate * (limit - fixed) / growing
    requirement = f"at most {fits:,.0f} for max_worker_mb={max_worker_mb:,}: {size}, {around}"
    raise InvalidArgumentError("rate_per_host", requirement, rate)


@dataclass(frozen=True)
class Measured:
    """What a simulation measured.

    Attributes:
        requests: how many were simulated.
        cpu_seconds: of the Python workers: making the trace, replaying it, and what is around that.
        mean_wait_ms: over all requests.
        worker_bytes: the largest Python worker's peak.
        sizes: see there.
    """

    requests: int
    cpu_seconds: float
    mean_wait_ms: float
    worker_bytes: int
    sizes: Sizes


@dataclass(frozen=True)
class Figure:
    """One extrapolated number, its unit, and the product that it is."""

    name: str
    value: float
    unit: str
    how: str

    def parameters(self) -> dict[str, Any]:
        """All fields, for the record."""
        return asdict(self)


def extrapolate(
    workload: Workload,
    settings: ReplaySettings,
    measured: Measured,
    target: Target,
    *,
    delay_ms: int,
    remember_ms: int,
) -> list[Figure]:
    """What the target rate would need, by what was measured.

    `delay_ms` and `remember_ms` are a stream's settings.
    """
    sizes = measured.sizes
    rate = target.per_day / DAY_S
    rate_per_host = workload.rate / workload.hosts
    hosts = rate / rate_per_host
    cpu = measured.cpu_seconds / measured.requests
    busy = rate * cpu
    cores = math.ceil(busy / target.utilization)
    executors = math.ceil(cores / target.executor_cores)
    wait_s = measured.mean_wait_ms / 1000
    pending = rate * wait_s
    ended_s = max(0.0, workload.timeout_ms / 1000 - wait_s)
    unread = rate * delay_ms / 1000 * (sizes.packed_request + sizes.packed_event)
    waiting = pending * sizes.packed_request + rate * ended_s * sizes.packed_id
    keys = rate * remember_ms / 1000 * sizes.packed_key
    figures = [
        ("requests a second", rate, "1/s", f"{target.per_day:g} a day / {DAY_S:,} s"),
        ("hosts", hosts, "hosts", f"requests a second / {rate_per_host:,.0f} on each host"),
        ("busy cores", busy, "cores", f"requests a second x {cpu * 1e6:.2f} CPU s a million"),
        ("cores", cores, "cores", f"busy cores / {target.utilization:g} utilization"),
        ("executors", executors, "executors", f"cores / {target.executor_cores} to an executor"),
        (
            "memory of an executor's workers", target.executor_cores * measured.worker_bytes, "bytes",
            f"{target.executor_cores} workers x the largest one's peak",
        ),
        (
            "memory of all workers", executors * target.executor_cores * measured.worker_bytes, "bytes",
            "executors x memory of an executor's workers",
        ),
        ("pending requests", pending, "requests", f"requests a second x {measured.mean_wait_ms:.1f} ms mean wait"),
        ("memory of pending requests", pending * sizes.pending_request, "bytes", f"x {sizes.pending_request:.0f} bytes"),
        (
            "memory of ended ones not purged yet", hosts * settings.purge_interval * sizes.pending_request, "bytes",
            f"at most: hosts x {settings.purge_interval:,} (purge_interval) x {sizes.pending_request:.0f} bytes",
        ),
        (
            "shuffle", rate * (sizes.packed_request + sizes.packed_event), "bytes/s",
            f"requests a second x ({sizes.packed_request:.1f} + {sizes.packed_event:.1f} bytes of a request and its event)",
        ),
        ("stream state: rows before the watermark", unread, "bytes", f"shuffle x {delay_ms / 1000:g} s (delay_ms)"),
        (
            "stream state: waiting requests", waiting, "bytes",
            f"pending x {sizes.packed_request:.1f} bytes, and ids of ended ones to their deadline x {sizes.packed_id:.1f}",
        ),
        (
            "stream state: keys remembered", keys, "bytes",
            f"requests a second x {remember_ms / 1000:g} s (remember_ms) x {sizes.packed_key:.1f} bytes, a key of its own each",
        ),
        ("stream state", unread + waiting + keys, "bytes", "the three together"),
    ]  # fmt: skip
    return [Figure(name, float(value), unit, how) for name, value, unit, how in figures]


def assumptions(workload: Workload, target: Target) -> list[str]:
    """What the figures take for granted."""
    return [
        f"the load is even: {target.per_day:g} requests a day arrive at one rate all day, like this workload's on every host; "
        "peaks and hot hosts come on top",
        "cost is proportional to requests: another core, host or executor takes as long as the ones that were measured",
        f"{target.utilization:g} of a core's time is work, the rest is kept free",
        "CPU time is that of the Python workers of this run (making the trace, condition, purgatory, timer); the JVM's, network, "
        "parsing and a service's own work are not in it",
        "pending requests are rate x mean wait (Little's law), without peaks",
        "a pending request's size was traced on a block of this workload's requests that wait in one purgatory",
        "rows are as large as a block of this workload in Arrow with zstd; blobs of few rows compress less",
        "stream settings are the defaults of `purgatory stream`, and each request has one event, on a key of its own; the "
        f"{workload.keys:,} shared keys of a host, of which each request watches {workload.shared_keys}, have no events",
    ]
