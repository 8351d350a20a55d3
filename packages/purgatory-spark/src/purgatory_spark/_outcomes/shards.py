"""Requests and events on their way to the task that computes their outcomes, packed by shard.

Rows that break a rule are packed as rejects, with the reason, and go to any shard.

A shard is the work of one call of a Python worker: some hosts with all their requests and events,
or one part of a host that is divided by watch key. Spark moves a row's values between the JVM and
Python one at a time, and sorts rows one at a time. So its rows are *blobs* here: some thousand
requests or events of one shard, as one binary value.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._outcomes.reject_rows import rows_as_json
from purgatory_spark._rows import packing
from purgatory_spark._rows.column_checks import reject_reasons
from purgatory_spark._rows.packing import MOST_BLOB_ROWS as MOST_BLOB_ROWS
from purgatory_spark._rows.packing import buffered as buffered
from purgatory_spark._rows.trace_columns import ARROW_SCHEMAS
from purgatory_spark._spark.arrays import Ints, Words
from purgatory_spark._spark.hashes import hash_strings
from purgatory_spark._spark.worker_gc import freeze_imported_objects

#: The columns of a blob, by kind. A key is a hash of host and key, so the same key on two hosts is
#: two.
BLOB_SCHEMAS: Mapping[str, pa.Schema] = {
    "requests": pa.schema(
        [
            pa.field("watch_keys", pa.list_(pa.uint64())) if column.name == "watch_keys" else column
            for column in ARROW_SCHEMAS["requests"]
        ]
    ),
    "events": pa.schema({"key": pa.uint64(), "occurred_at": pa.int64(), "amount": pa.float64()}),
    "rejects": pa.schema({"reason": pa.string(), "row": pa.string()}),
}


@dataclass(frozen=True)
class Sharding:
    """How hosts are assigned to shards.

    Attributes:
        shards: The number of shards for hosts that are not divided. Their shard is a hash of the
            host's name.
        parts: The number of parts of each host that is divided by watch key. Every part has a shard
            of its own, with a number from `shards` on.
        tasks: The number of tasks that take the shards; that of the session's partitions if None.
    """

    shards: int
    parts: Mapping[str, int] = field(default_factory=dict)
    tasks: int | None = None

    @property
    def total(self) -> int:
        return self.shards + sum(self.parts.values())

    def host_shards(self, hosts: pa.Array, hashes: Words) -> tuple[Ints, Ints]:
        """Return the first shard of each host, and its number of parts."""
        first = (hashes % np.uint64(self.shards)).astype(np.int64)
        counts = np.ones(len(hosts), dtype=np.int64)
        if self.parts:
            divided, offsets, numbers = self._divided
            found = pc.index_in(hosts, value_set=divided)
            is_divided = found.is_valid().to_numpy(zero_copy_only=False)
            at = found.drop_null().to_numpy()
            first[is_divided], counts[is_divided] = offsets[at], numbers[at]
        return first, counts

    @cached_property
    def _divided(self) -> tuple[pa.Array, Ints, Ints]:
        """The divided hosts, the first shard of each, and its number of parts."""
        numbers = np.array(list(self.parts.values()), dtype=np.int64)
        offsets = self.shards + np.cumsum(numbers) - numbers
        return pa.array(list(self.parts), pa.string()), offsets, numbers


def pack_batches(
    batches: Iterable[pa.RecordBatch], kind: str, sharding: Sharding
) -> Iterator[pa.RecordBatch]:
    """Check many rows of `ARROW_SCHEMAS[kind]`, and yield them and the rejects, packed."""
    freeze_imported_objects()
    for table in buffered(batches):
        rows = packing.encoded_rows(table, kind)
        reasons = reject_reasons(rows, kind)
        if reasons is not None:
            is_bad = reasons.is_valid()
            yield _pack_rejects(rows.filter(is_bad), reasons.filter(is_bad), sharding)
            rows = rows.filter(pc.invert(is_bad))
        if rows.num_rows:
            yield pack_rows(rows, kind, sharding)


def _pack_rejects(rows: pa.RecordBatch, reasons: pa.Array, sharding: Sharding) -> pa.RecordBatch:
    texts = rows_as_json(rows)
    rejects = pa.RecordBatch.from_arrays(
        [reasons, pa.array(texts, pa.string())], schema=BLOB_SCHEMAS["rejects"]
    )
    # They are spread over the shards, as a trace may have many of them.
    shard = zlib.crc32(texts[0].encode("utf-8", "replace")) % sharding.shards
    return packing.packed_batch("rejects", [(shard, packing.to_blob(rejects))])


def pack_rows(rows: pa.RecordBatch, kind: str, sharding: Sharding) -> pa.RecordBatch:
    columns = {name: rows.column(name) for name in rows.schema.names}
    hosts = columns["host"]
    host_hashes = hash_strings(hosts.dictionary, np.zeros(len(hosts.dictionary), dtype=np.uint64))
    number = hosts.indices.to_numpy()
    seeds = host_hashes[number]
    if kind == "requests":
        columns["watch_keys"], first_keys = packing.hash_watch_keys(
            columns["watch_keys"], seeds, hash_strings
        )
        columns |= packing.passed_columns(rows)
    else:
        first_keys = hash_strings(columns["key"].cast(pa.string()), seeds)
        columns["key"] = pa.array(first_keys)
    first_shards, parts = sharding.host_shards(hosts.dictionary, host_hashes)
    shards = first_shards[number]
    if sharding.parts:
        shards += (first_keys % parts[number].astype(np.uint64)).astype(np.int64)
    names = BLOB_SCHEMAS[kind].names
    rows = pa.RecordBatch.from_arrays(
        [packing.with_constant(columns[name]) for name in names], names=names
    )
    return packing.packed_batch(
        kind, packing.blobs_by_shard(rows, shards, most_rows=MOST_BLOB_ROWS)
    )


def unpack(packed: pa.Table, kind: str, schema: pa.Schema | None = None) -> pa.Table:
    """Return the rows of one kind, of the schema `BLOB_SCHEMAS[kind]` unless another is given."""
    return packing.unpacked(packed, kind, schema or BLOB_SCHEMAS[kind])
