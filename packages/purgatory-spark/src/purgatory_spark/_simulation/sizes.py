"""Measured sizes of a workload's requests and rows, and the memory that a simulated host needs."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from purgatory_spark._outcomes.host_driver import EventPart
from purgatory_spark._outcomes.replay import ReplaySettings
from purgatory_spark._rows.packing import from_blob, to_blob
from purgatory_spark._rows.schema import MAX_TIMEOUT_MS
from purgatory_spark._simulation.host_simulation import SimulatedHost, request_part, trace_parts
from purgatory_spark._spark.arrays import Ints
from purgatory_spark._spark.memory import tracing_memory
from purgatory_spark._spark.schemas import batch_to_micros
from purgatory_spark._stream.packing import Packer
from purgatory_spark._stream.state import key_history, pending, request_ids
from purgatory_spark._stream.state.rows import EVENTS, REQUESTS
from purgatory_spark._stream.state.shard import NO_WATERMARK_US, Shard
from purgatory_spark._stream.state.store import STORED, ShardStore
from purgatory_spark._traces.workload import Workload
from purgatory_spark._traces.workload_blocks import HOST_BLOCK, Block, host_blocks
from request_purgatory.errors import InvalidArgumentError

_MB = 2**20
_FOREVER_US = 2**60
_MAX_BYTES = 2**34


@dataclass(frozen=True)
class StoredBytes:
    """The bytes of a row: as base64 text of Arrow with zstd, and as uncompressed Arrow."""

    state_store: float
    local_disk: float

    def __add__(self, other: StoredBytes) -> StoredBytes:
        return StoredBytes(self.state_store + other.state_store, self.local_disk + other.local_disk)


@dataclass(frozen=True)
class StreamSizes:
    """Sizes of rows in a stream's state, measured in a shard.

    `request` and `event` are ahead of the watermark. `waiting` is a pending request with its pairs.
    """

    request: StoredBytes
    event: StoredBytes
    waiting: StoredBytes
    request_id: StoredBytes
    key: StoredBytes


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
    # All of them are pending at once, however rare requests are.
    late = replace(one_host, timeout_ms=MAX_TIMEOUT_MS, rate=max(1.0, one_host.rate))
    (waiting,) = host_blocks(late, 0)
    count = len(block.arrived_us)
    return Sizes(
        pending_request=_pending_bytes(one_host, settings) / count,
        future_event=sys.getsizeof(block.own_keys()[0].as_py())
        + block.occurred_us.itemsize
        + np.dtype(object).itemsize,
        packed_request=len(to_blob(block.requests(), STORED)) / count,
        packed_event=len(to_blob(block.events(), STORED)) / count,
        stream=_stream_sizes(waiting),
    )


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
        at_once = np.full(len(watched), arrived[0][0])
        host = SimulatedHost(settings, int(at_once[0]), 1_000_000)
        host.play(request_part(at_once, max(1, workload.timeout_ms), watched), no_events)
        del requests, arrived, watched, at_once
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


def _stream_sizes(block: Block) -> StreamSizes:
    """Step a shard with a block's requests and events, and measure what it stores."""
    count = len(block.arrived_us)
    requests, events = _packed(REQUESTS, block.requests()), _packed(EVENTS, block.events())
    ahead = _stored_by_shard({REQUESTS: [requests], EVENTS: [events]})
    settled = _stored_by_shard({REQUESTS: [requests]}, int(block.arrived_us.max()))
    remembered = _stored_by_shard({EVENTS: [events]}, int(block.occurred_us.max()))
    return StreamSizes(
        request=_stored(ahead, REQUESTS, count),
        event=_stored(ahead, EVENTS, count),
        waiting=_stored(settled, pending.KIND, count),
        request_id=_stored(settled, request_ids.KIND, count),
        key=_stored(remembered, key_history.KIND, count),
    )


def _packed(kind: str, rows: pa.RecordBatch) -> pa.Table:
    """Return rows as a shard gets them."""
    packed = Packer(kind, (0,), by_key=False, file_columns=()).pack(batch_to_micros(rows))
    (blob,) = packed.column("blob")
    return from_blob(blob.as_buffer())


def _stored_by_shard(
    inputs: dict[str, list[pa.Table]], watermark_us: int | None = None
) -> ShardStore:
    """Return what a shard stores of rows, once the watermark has reached `watermark_us`."""
    store = ShardStore({})
    shard = Shard(store, key_retention_us=_FOREVER_US, max_bytes=_MAX_BYTES)
    shard.step(inputs, NO_WATERMARK_US)
    if watermark_us is not None:
        shard.step({}, watermark_us)
    return store


def _stored(store: ShardStore, kind: str, count: int) -> StoredBytes:
    segments = store.segments(kind)
    blobs = sum(segment["bytes"] for segment in segments)
    tables = [
        store.read_segment(kind, segment, part) for segment in segments for part in segment["parts"]
    ]
    # Base64 has four characters for three bytes.
    return StoredBytes(blobs * 4 / 3 / count, sum(table.nbytes for table in tables) / count)
