"""Requests and events on their way to the task that computes their outcomes, packed by shard.

Rows that break a rule are packed as rejects, with the reason, and go to any shard.

A shard is the work of one call of a Python worker: some hosts with all their requests and events,
or one part of a host that is divided by watch key. Spark moves a row's values between the JVM and
Python one at a time, and sorts rows one at a time. So its rows are *blobs* here: some thousand
requests or events of one shard, as one binary value.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark.outcomes.results import DEFAULT_TYPE, rows_as_json
from purgatory_spark.outcomes.string_hashes import hash_strings
from purgatory_spark.rows.column_checks import reject_reasons
from purgatory_spark.spark.arrays import Ints, Words

#: The columns that are packed, by kind. Times are microseconds since the epoch: Arrow's timestamps
#: have a time zone, which Spark would ask to be the session's.
INPUT_SCHEMAS: Mapping[str, pa.Schema] = {
    "requests": pa.schema({
        "host": pa.string(),
        "request_id": pa.string(),
        "request_type": pa.string(),
        "arrived_at": pa.int64(),
        "timeout_ms": pa.int32(),
        "watch_keys": pa.list_(pa.string()),
        "aggregate": pa.string(),
        "threshold": pa.float64(),
        "quantifier": pa.string(),
    }),
    "events": pa.schema({
        "host": pa.string(),
        "key": pa.string(),
        "occurred_at": pa.int64(),
        "amount": pa.float64(),
    }),
}

#: The columns of a blob, by kind. A key is a hash of host and key, so the same key on two hosts is
#: two.
BLOB_SCHEMAS: Mapping[str, pa.Schema] = {
    "requests": pa.schema([
        pa.field("watch_keys", pa.list_(pa.uint64())) if column.name == "watch_keys" else column
        for column in INPUT_SCHEMAS["requests"]
    ]),
    "events": pa.schema({"key": pa.uint64(), "occurred_at": pa.int64(), "amount": pa.float64()}),
    "rejects": pa.schema({"reason": pa.string(), "row": pa.string()}),
}

#: Columns with few distinct values in most traces, by kind.
ENCODED = {
    "requests": ("host", "request_type", "aggregate", "quantifier"),
    "events": ("host",),
}

#: The rows that Spark moves.
PACKED_SCHEMA = pa.schema({"shard": pa.int32(), "kind": pa.string(), "blob": pa.binary()})

#: Input is packed when there is this much of it. Larger pieces make larger blobs, but the memory
#: for their columns is returned to the system each time, and page faults take most of the time.
_BUFFER_BYTES = 16 * 2**20
#: The most rows in a blob, so that a blob of a host with many rows is not large.
_BLOB_ROWS = 65_536
#: Columns of strings with at most this many distinct values are bytes in a blob, and a dictionary.
_DICTIONARY_SIZE = 256


@dataclass(frozen=True)
class Sharding:
    """How hosts are assigned to shards.

    Attributes:
        shards: The number of shards for hosts that are not divided. Their shard is a hash of the
            host's name.
        parts: The number of parts of each host that is divided by watch key. Every part has a shard
            of its own, with a number from `shards` on.
    """

    shards: int
    parts: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of all shards."""
        return self.shards + sum(self.parts.values())

    def host_shards(self, hosts: pa.Array, hashes: Words) -> tuple[Ints, Ints]:
        """Return the first shard of each host, and its number of parts.

        Args:
            hosts: Names.
            hashes: Their hashes.

        Returns:
            Two arrays of the hosts' length.
        """
        first = (hashes % np.uint64(self.shards)).astype(np.int64)
        counts = np.ones(len(hosts), dtype=np.int64)
        offset = self.shards
        for host, count in self.parts.items():
            is_host = pc.fill_null(pc.equal(hosts, host), False).to_numpy(zero_copy_only=False)
            first[is_host], counts[is_host] = offset, count
            offset += count
        return first, counts


def pack_batches(
    batches: Iterable[pa.RecordBatch], kind: str, sharding: Sharding
) -> Iterator[pa.RecordBatch]:
    """Check the rows of many batches, and pack them.

    Args:
        batches: Rows of `INPUT_SCHEMAS[kind]`. Columns of strings may be dictionaries.
        kind: "requests" or "events".
        sharding: The shards.

    Yields:
        Rows of `PACKED_SCHEMA`, of this kind and of the kind "rejects".
    """
    for table in _buffered(batches):
        rows = encoded_rows(table, kind)
        reasons = reject_reasons(rows, kind)
        if reasons is not None:
            is_bad = reasons.is_valid()
            yield _pack_rejects(rows.filter(is_bad), reasons.filter(is_bad), sharding)
            rows = rows.filter(pc.invert(is_bad))
        if rows.num_rows:
            yield _pack_rows(rows, kind, sharding)


def _buffered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of many batches as tables of about `_BUFFER_BYTES`."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= _BUFFER_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def encoded_rows(table: pa.Table, kind: str) -> pa.RecordBatch:
    """Return rows in one chunk, with dictionaries in place of columns with few values."""
    columns = {name: _one_chunk(table.column(name)) for name in INPUT_SCHEMAS[kind].names}
    for name in ENCODED[kind]:
        columns[name] = _encoded(columns[name])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _pack_rejects(rows: pa.RecordBatch, reasons: pa.Array, sharding: Sharding) -> pa.RecordBatch:
    texts = rows_as_json(rows)
    rejects = pa.RecordBatch.from_arrays(
        [reasons, pa.array(texts, pa.string())], schema=BLOB_SCHEMAS["rejects"]
    )
    # They are spread over the shards, as a trace may have many of them.
    shard = zlib.crc32(texts[0].encode("utf-8", "replace")) % sharding.shards
    return _blobs(rejects, "rejects", np.full(len(texts), shard))


def _pack_rows(rows: pa.RecordBatch, kind: str, sharding: Sharding) -> pa.RecordBatch:
    columns = {name: rows.column(name) for name in rows.schema.names}
    hosts = columns["host"]
    host_hashes = hash_strings(hosts.dictionary, np.zeros(len(hosts.dictionary), dtype=np.uint64))
    number = hosts.indices.to_numpy()
    seeds = host_hashes[number]
    if kind == "requests":
        columns["watch_keys"], first_keys = hash_watch_keys(
            columns["watch_keys"], seeds, hash_strings
        )
        types = columns["request_type"]
        columns["request_type"] = pa.DictionaryArray.from_arrays(
            types.indices, pc.fill_null(types.dictionary, DEFAULT_TYPE)
        )
    else:
        first_keys = hash_strings(columns["key"].cast(pa.string()), seeds)
        columns["key"] = pa.array(first_keys)
    first_shards, parts = sharding.host_shards(hosts.dictionary, host_hashes)
    shards = first_shards[number]
    if sharding.parts:
        shards += (first_keys % parts[number].astype(np.uint64)).astype(np.int64)
    # NumPy sorts numbers of 16 bits by counting.
    order = np.argsort(shards.astype(np.uint16) if shards.max() < 2**16 else shards, kind="stable")
    rows = pa.RecordBatch.from_arrays(
        [_take(columns[name], order) for name in BLOB_SCHEMAS[kind].names],
        names=BLOB_SCHEMAS[kind].names,
    )
    return _blobs(rows, kind, shards[order])


def _blobs(rows: pa.RecordBatch, kind: str, shards: Ints) -> pa.RecordBatch:
    starts = np.flatnonzero(np.concatenate([[True], shards[1:] != shards[:-1]])).tolist()
    packed = [
        (int(shards[start]), _to_blob(rows.slice(at, min(end - at, _BLOB_ROWS))))
        for start, end in zip(starts, [*starts[1:], len(shards)], strict=True)
        for at in range(start, end, _BLOB_ROWS)
    ]
    # Arrow copies a list of buffers to an array slowly.
    blobs = [blob for _, blob in packed]
    offsets = np.cumsum([0, *map(len, blobs)], dtype=np.int32)
    array = pa.BinaryArray.from_buffers(
        pa.binary(), len(blobs), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(blobs))]
    )
    return pa.RecordBatch.from_arrays(
        [pa.array([shard for shard, _ in packed], pa.int32()), pa.repeat(kind, len(blobs)), array],
        schema=PACKED_SCHEMA,
    )


def _to_blob(rows: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return sink.getvalue()


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    """Return a column of strings as a dictionary, of which null may be a value."""
    if pa.types.is_dictionary(column.type):
        if not column.null_count and not column.dictionary.null_count:
            return pa.DictionaryArray.from_arrays(
                column.indices, column.dictionary.cast(pa.string())
            )
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()).dictionary_encode("encode")


def _take(column: pa.Array, order: Ints) -> pa.Array:
    """Return the elements of a column in another order, as a small dictionary if possible."""
    if pa.types.is_list(column.type):
        return _take_lists(column, order)
    if not pa.types.is_dictionary(column.type):
        return column.take(pa.array(order))
    if len(column.dictionary) > _DICTIONARY_SIZE:
        return column.take(pa.array(order)).cast(pa.string())
    small = column.indices.to_numpy().astype(np.uint8)[order]
    return pa.DictionaryArray.from_arrays(pa.array(small), column.dictionary)


def _take_lists(lists: pa.ListArray, order: Ints) -> pa.ListArray:
    """Return lists of hashes in another order, in half the time of Arrow's `take`."""
    starts = lists.offsets.to_numpy()
    lengths = np.diff(starts)[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    at = np.repeat(starts[:-1][order] - offsets[:-1], lengths) + np.arange(offsets[-1])
    values = lists.values.to_numpy()[at]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))


def unpack(packed: pa.Table, kind: str) -> pa.Table:
    """Return the rows of one kind.

    Args:
        packed: Rows of `PACKED_SCHEMA`.
        kind: "requests", "events" or "rejects".

    Returns:
        A table of the schema `BLOB_SCHEMAS[kind]`.
    """
    schema = BLOB_SCHEMAS[kind]
    batches = []
    for blob in packed.column("blob").filter(pc.equal(packed.column("kind"), kind)):
        with pa.ipc.open_stream(blob.as_buffer()) as stream:
            batches.append(stream.read_next_batch().cast(schema))
    return pa.Table.from_batches(batches, schema)


def hash_watch_keys(
    watch_keys: pa.ListArray, seeds: Words, hash_of: Callable[[pa.Array, Words], Words]
) -> tuple[pa.ListArray, Words]:
    """Hash all watch keys.

    Args:
        watch_keys: A list of strings for each request; null is an empty list.
        seeds: The hash of each request's host.
        hash_of: Returns the hashes of strings with these seeds.

    Returns:
        The lists of hashes, and the first hash of each request, or its seed without keys.
    """
    lengths = np.asarray(pc.fill_null(pc.list_value_length(watch_keys), 0), dtype=np.int64)
    hashes = hash_of(watch_keys.flatten().cast(pa.string()), np.repeat(seeds, lengths))
    ends = np.cumsum(lengths)
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    first_keys = seeds.copy()
    with_keys = np.flatnonzero(lengths)
    first_keys[with_keys] = hashes[offsets[with_keys]]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(hashes)), first_keys


def _one_chunk(column: Any) -> Any:
    """Return a column as one array."""
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        if column.num_chunks == 1:
            return column.chunk(0)
        return pa.concat_arrays(column.chunks)
    return column
