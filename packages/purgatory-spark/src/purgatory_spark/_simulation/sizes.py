"""Measured sizes of a workload's requests and rows, and the memory that a simulated host needs."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from purgatory_spark._outcomes.replay import ReplaySettings
from purgatory_spark._outcomes.trace_part import EventPart, RequestPart
from purgatory_spark._simulation.host_simulation import SimulatedHost, trace_parts
from purgatory_spark._simulation.stream_sizes import StreamSizes, measure_stream_sizes
from purgatory_spark._spark.arrays import Ints
from purgatory_spark._spark.memory import tracing_memory
from purgatory_spark._traces.workload import Workload
from purgatory_spark._traces.workload_blocks import HOST_BLOCK, host_blocks
from request_purgatory.errors import InvalidArgumentError

_MB = 2**20
#: The stream compresses its rows in the same way.
_PACKING = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))


@dataclass(frozen=True)
class Sizes:
    """Sizes in bytes, measured on a block of the workload.

    Attributes:
        pending_request: A request in a purgatory: the operation, its keys, its entries in watcher
            lists and timer.
        future_event: In a simulation, an event that a request that has arrived waits for.
        packed_request: A request in a shuffle, in Arrow with zstd.
        packed_event: An event in a shuffle, in Arrow with zstd.
        stream: Rows in the state of a stream.
    """

    pending_request: float
    future_event: float
    packed_request: float
    packed_event: float
    stream: StreamSizes


def measure_sizes(workload: Workload, settings: ReplaySettings) -> Sizes:
    """Measure sizes on one block of a workload, on the installed build."""
    one_host = replace(
        workload,
        hosts=1,
        requests=HOST_BLOCK,
        rate=workload.rate / workload.hosts,
        host_by_host=True,
    )
    (block,) = host_blocks(one_host, 0)
    count = len(block.arrived_us)
    return Sizes(
        pending_request=_pending_bytes(one_host, settings) / count,
        future_event=sys.getsizeof(block.own_keys()[0].as_py())
        + block.occurred_us.itemsize
        + np.dtype(object).itemsize,
        packed_request=_packed_bytes(block.requests()) / count,
        packed_event=_packed_bytes(block.events()) / count,
        stream=measure_stream_sizes(block),
    )


def _packed_bytes(rows: pa.RecordBatch) -> int:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_PACKING) as writer:
        writer.write_batch(rows)
    size: int = sink.getvalue().size
    return size


def _pending_bytes(workload: Workload, settings: ReplaySettings) -> int:
    """Return the traced memory of a block of requests that are all pending, in bytes."""
    no_events = EventPart(np.zeros(0, dtype=np.int64), [], [])
    with tracing_memory():
        before, _ = tracemalloc.get_traced_memory()
        arrived: list[Ints] = []
        watched: list[list[str] | None] = []
        for requests, _ in trace_parts(host_blocks(workload, 0)):
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
            no_events,
        )
        del requests, arrived, watched, timeouts, at_once
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    host.finish()
    return after - before


def require_simulated_host_fits(
    workload: Workload, settings: ReplaySettings, sizes: Sizes, max_worker_mb: int
) -> None:
    per_host, rate = workload.requests // workload.hosts, workload.rate / workload.hosts
    pending = min(per_host, rate * workload.expected_wait_ms / 1000)
    future = min(per_host, rate * workload.expected_service_ms / 1000)
    growing = pending * sizes.pending_request + future * sizes.future_event
    # One block is replayed while the next one is made; ended requests stay until they are purged.
    fixed = min(per_host, 2 * HOST_BLOCK + settings.purge_interval) * sizes.pending_request
    limit = max_worker_mb * _MB
    if fixed + growing <= limit:
        return
    overhead = f"two blocks and the ended requests take {fixed / _MB:,.0f} MB"
    if fixed >= limit:
        raise InvalidArgumentError(
            "max_worker_mb", f"more than {fixed / _MB:,.0f} ({overhead})", max_worker_mb
        )
    fits = rate * (limit - fixed) / growing
    size = (
        f"{pending:,.0f} pending requests of a host and {future:,.0f} future events take about "
        f"{growing / _MB:,.0f} MB"
    )
    requirement = f"at most {fits:,.0f} for max_worker_mb={max_worker_mb:,} ({size}, {overhead})"
    raise InvalidArgumentError("rate_per_host", requirement, rate)
