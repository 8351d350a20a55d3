"""Measured sizes of a workload's rows in the state of a stream, where they are stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from purgatory_spark._rows.schema import AGGREGATES, PASSED
from purgatory_spark._stream.state import key_history, pending, request_ids
from purgatory_spark._stream.state.rows import EVENT_SCHEMA, EVENTS, REQUESTS
from purgatory_spark._stream.state.rows import REQUEST_INPUT_SCHEMA as REQUEST_COLUMNS
from purgatory_spark._stream.state.shard import NO_WATERMARK_US, Shard
from purgatory_spark._stream.state.store import MemoryBlobStore, ShardStore
from purgatory_spark._traces.workload_blocks import Block

_FOREVER_US = 2**60
_MAX_BYTES = 2**34


@dataclass(frozen=True)
class StoredBytes:
    """The bytes of a row: as base64 text of Arrow with zstd, and as uncompressed Arrow."""

    state_store: float
    local_disk: float

    def __add__(self, other: StoredBytes) -> StoredBytes:
        return StoredBytes(self.state_store + other.state_store, self.local_disk + other.local_disk)

    def __mul__(self, count: float) -> StoredBytes:
        return StoredBytes(self.state_store * count, self.local_disk * count)


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


def measure_stream_sizes(block: Block) -> StreamSizes:
    """Step a shard with a block's requests and events, and measure what it stores."""
    count = len(block.arrived_us)
    requests, events = _inputs(block)
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


def _inputs(block: Block) -> tuple[pa.Table, pa.Table]:
    """Return the block as a shard gets it; random numbers take the place of hashes."""
    count, shared = len(block.arrived_us), block.workload.shared_keys
    hashes = np.random.default_rng(block.workload.seed).integers(
        -(2**63), 2**63 - 1, (2, count + block.workload.keys)
    )
    ids, own = hashes[0, :count], hashes[1, :count]
    keys = np.column_stack([own, hashes[1, count:][block.shared]]).ravel()
    offsets = np.arange(0, count * (1 + shared) + 1, 1 + shared)
    columns = {
        "id": pa.array(ids),
        "host": block.hosts,
        "request_id": block.ids,
        **{column.name: pa.repeat(block.workload.name, count) for column in PASSED},
        "arrived_us": pa.array(block.arrived_us),
        # So late that all of them are pending at once.
        "deadline_us": pa.array(block.arrived_us + _FOREVER_US),
        "keys": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(keys)),
        "aggregate": pa.repeat(AGGREGATES.index("count"), count),
        "threshold": pa.repeat(1.0, count),
        "needed": pa.repeat(1, count),
        "watch_keys": pa.nulls(count, pa.list_(pa.string())),
    }
    requests = pa.table(columns)
    amounts = np.full(count, float(block.workload.amount))
    events = pa.table([own, block.occurred_us, amounts], schema=EVENT_SCHEMA)
    return requests.select(REQUEST_COLUMNS.names).cast(REQUEST_COLUMNS), events


def _stored_by_shard(
    inputs: dict[str, list[pa.Table]], watermark_us: int | None = None
) -> ShardStore:
    """Return what a shard stores of rows, once the watermark has reached `watermark_us`."""
    store = ShardStore(MemoryBlobStore())
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
