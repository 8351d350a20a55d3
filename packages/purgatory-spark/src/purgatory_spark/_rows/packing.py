"""Rows on their way to their shards, packed into blobs, in a Python worker.

Spark moves a row's values between the JVM and Python one at a time, and sorts rows one at a time.
So its rows are *blobs*: many rows of one shard, as an Arrow IPC stream in one binary value. Batch
and stream pack them here, each in schemas of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_floating, is_integer

from purgatory_spark._rows.trace_columns import ARROW_SCHEMAS, PASSED, TABLES
from purgatory_spark._spark.arrays import Ints, Words, one_chunk

#: The rows that Spark moves.
PACKED_SCHEMA = pa.schema({"shard": pa.int32(), "kind": pa.string(), "blob": pa.binary()})

#: Columns with few distinct values in most traces, by kind.
ENCODED: Mapping[str, tuple[str, ...]] = {
    kind: tuple(column.name for column in columns if column.few_values)
    for kind, columns in TABLES.items()
}
#: Input is packed when there is this much of it. Larger pieces make larger blobs, but the memory
#: for their columns is returned to the system each time, and page faults take most of the time.
_BUFFER_BYTES = 16 * 2**20
#: The most rows in a blob, so that a blob of a host with many rows is not large.
MOST_BLOB_ROWS = 65_536
#: Columns of strings with at most this many distinct values are bytes in a blob, and a dictionary.
_DICTIONARY_SIZE = 256


def buffered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
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
    columns = {name: one_chunk(table.column(name)) for name in ARROW_SCHEMAS[kind].names}
    for name in ENCODED[kind]:
        columns[name] = _encoded(columns[name])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def passed_columns(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the columns of `schema.PASSED`, with their defaults in place of nulls."""
    columns = {}
    for passed in PASSED:
        column = one_chunk(rows.column(passed.name))
        if passed.default is not None and pa.types.is_dictionary(column.type):
            values = pc.fill_null(column.dictionary, passed.default)
            column = pa.DictionaryArray.from_arrays(column.indices, values)
        elif passed.default is not None:
            column = pc.fill_null(column, passed.default)
        columns[passed.name] = column
    return columns


def with_constant(column: pa.Array) -> pa.Array:
    """Return a column as bytes and a dictionary if it is one number in all rows."""
    if column.null_count or not (is_integer(column.type) or is_floating(column.type)):
        return column
    numbers = column.to_numpy()
    bits = numbers.view(f"u{numbers.itemsize}")
    if bits[0] != bits[-1] or (bits != bits[0]).any():
        return column
    return pa.DictionaryArray.from_arrays(np.zeros(len(bits), dtype=np.uint8), column[:1])


def hash_watch_keys(
    watch_keys: pa.ListArray, seeds: Words, hash_of: Callable[[pa.Array, Words], Words]
) -> tuple[pa.ListArray, Words]:
    """Return the hashes of all watch keys, seeded by each request's host, and the first of each.

    Null is an empty list. The first hash of a request without keys is its seed.
    """
    lengths = np.asarray(pc.fill_null(pc.list_value_length(watch_keys), 0), dtype=np.int64)
    hashes = hash_of(watch_keys.flatten().cast(pa.string()), np.repeat(seeds, lengths))
    ends = np.cumsum(lengths)
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    first_keys = seeds.copy()
    with_keys = np.flatnonzero(lengths)
    first_keys[with_keys] = hashes[offsets[with_keys]]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(hashes)), first_keys


def blobs_by_shard(
    rows: pa.RecordBatch,
    shards: Ints,
    *,
    most_rows: int | None = None,
    options: pa.ipc.IpcWriteOptions | None = None,
) -> Iterator[tuple[int, pa.Buffer]]:
    """Yield blobs of at most `most_rows` rows of one shard each, in ascending order of shards."""
    # NumPy sorts numbers of 16 bits by counting.
    order = np.argsort(shards.astype(np.uint16) if shards.max() < 2**16 else shards, kind="stable")
    rows = pa.RecordBatch.from_arrays(
        [_take(column, order) for column in rows.columns], names=rows.schema.names
    )
    shards = shards[order]
    starts = np.flatnonzero(np.concatenate([[True], shards[1:] != shards[:-1]])).tolist()
    for start, end in zip(starts, [*starts[1:], len(shards)], strict=True):
        step = most_rows or end - start
        for at in range(start, end, step):
            yield int(shards[start]), to_blob(rows.slice(at, min(end - at, step)), options)


def packed_batch(kind: str, packed: Iterable[tuple[int, pa.Buffer]]) -> pa.RecordBatch:
    """Return shards and their blobs as rows of `PACKED_SCHEMA`."""
    shards, blobs = zip(*packed, strict=True)
    columns = [pa.array(shards, pa.int32()), pa.repeat(kind, len(blobs)), binary_array(blobs)]
    return pa.RecordBatch.from_arrays(columns, schema=PACKED_SCHEMA)


def binary_array(blobs: Sequence[pa.Buffer]) -> pa.BinaryArray:
    """Return blobs as a column; Arrow copies a list of buffers to an array slowly."""
    offsets = np.cumsum([0, *map(len, blobs)], dtype=np.int32)
    data = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(blobs))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(blobs), data)


def to_blob(
    rows: pa.Table | pa.RecordBatch, options: pa.ipc.IpcWriteOptions | None = None
) -> pa.Buffer:
    """Return rows as a blob, uncompressed unless `options` say otherwise."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
        stream.write(rows)
    return sink.getvalue()


def from_blob(blob: bytes | pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(blob) as stream:
        return stream.read_all()


def unpacked(packed: pa.Table, kind: str, schema: pa.Schema) -> pa.Table:
    """Return the rows of one kind in packed rows."""
    kinds = zip(packed.column("kind").to_pylist(), _buffers(packed.column("blob")), strict=True)
    tables = [from_blob(blob) for found, blob in kinds if found == kind]
    # A column is a dictionary in some blobs, and a cast of many chunks takes less time than many.
    alike = [
        pa.concat_tables(group).cast(schema) for _, group in groupby(tables, attrgetter("schema"))
    ]
    return pa.concat_tables([*alike, schema.empty_table()])


def _buffers(blobs: pa.ChunkedArray) -> Iterator[pa.Buffer]:
    """Yield the values of a column as they are in memory; Arrow would copy them."""
    for chunk in blobs.cast(pa.binary()).chunks:
        _, offsets, data = chunk.buffers()
        first, last = chunk.offset, chunk.offset + len(chunk)
        bounds = np.frombuffer(offsets, np.int32)[first : last + 1] if len(chunk) else ()
        for start, end in pairwise(bounds):
            yield data.slice(start, end - start)


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
    if pa.types.is_list(column.type) and pa.types.is_integer(column.type.value_type):
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
