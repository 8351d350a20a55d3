"""What Python workers do with the rows of mapped tables: count them, and keep those accepted.

A worker maps and checks rows, and packs what it accepts into blobs by shard. The shard then finds
the repeated requests, or numbers those without ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._rows import packing
from purgatory_spark._rows.mapped_columns import IS_REPEATED_HOUR, rejections
from purgatory_spark._rows.mapped_requests import host_hashes, keys_of_reused_ids, repeated_requests
from purgatory_spark._rows.mapped_rows import BatchMapper
from purgatory_spark._rows.repeats import REPEATED
from purgatory_spark._rows.request_numbers import numbered_ids
from purgatory_spark._rows.row_counts import COUNTS, REJECTED
from purgatory_spark._rows.trace_columns import ARROW_SCHEMAS
from purgatory_spark._spark.hashes import hash_strings
from purgatory_spark._spark.worker_gc import freeze_imported_objects

#: The column that says whether a row is malformed.
IS_MALFORMED = "_purgatory_is_malformed"
MALFORMED = "malformed row"
#: The key of a request that waits for its own answer, where that is not its id.
OWN_KEY = "own_key"
#: The kinds of blobs. Repeated requests are their hosts and ids.
ACCEPTED, REPEATED_IDS = "accepted", "repeated"
_COUNTED = "counts"
#: What a shard returns: blobs of a kind, or counts.
FOUND = pa.schema([pa.field("kind", pa.string()), pa.field("blob", pa.binary()), *COUNTS])

_Counts = Counter[tuple[str, str | None]]


@dataclass(frozen=True)
class TableTask:
    """What workers do with the rows of a table; they get it pickled.

    Attributes:
        name: The table's name in counts.
        mapper: The function that maps its rows.
        schema: The fields of accepted rows that are kept.
    """

    name: str
    mapper: BatchMapper
    schema: pa.Schema

    def accept(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield accepted rows, which need no others, and the counts, as rows of `FOUND`."""
        counts: _Counts = Counter()
        for rows in self._accepted(batches, counts):
            yield from _blobs(ACCEPTED, rows.select(self.schema.names))
        yield from _counts(counts)

    def pack(self, batches: Iterable[pa.RecordBatch], shards: int) -> Iterator[pa.RecordBatch]:
        """Yield accepted requests, packed by shard, and the counts."""
        counts: _Counts = Counter()
        for rows in self._accepted(batches, counts):
            hashes = host_hashes(rows)
            if "request_id" in rows.schema.names:
                hashes = hash_strings(rows.column("request_id"), hashes)
            of_row = (hashes % np.uint64(shards)).astype(np.int64)
            rows = rows.select(self.schema.names)
            blobs = packing.blobs_by_shard(rows, of_row, most_rows=packing.MOST_BLOB_ROWS)
            yield packing.packed_batch(ACCEPTED, blobs)
        if counts:
            yield packing.packed_batch(_COUNTED, [(0, packing.to_blob(_count_rows(counts)))])

    def _accepted(
        self, batches: Iterable[pa.RecordBatch], counts: _Counts
    ) -> Iterator[pa.RecordBatch]:
        freeze_imported_objects()
        for table in packing.buffered(batches):
            batch = table.combine_chunks().to_batches()[0]
            mapped = self.mapper(batch)
            is_malformed = batch.column(IS_MALFORMED)
            if is_malformed.true_count:
                reasons = mapped.reasons or pa.nulls(batch.num_rows, pa.string())
                mapped = replace(mapped, reasons=pc.if_else(is_malformed, MALFORMED, reasons))
            counts[f"{self.name} in", None] += batch.num_rows
            if IS_REPEATED_HOUR in mapped.fields.schema.names:
                repeated = mapped.fields.column(IS_REPEATED_HOUR).true_count
                counts[f"{self.name} of a repeated hour", None] += repeated
            counts.update({(REJECTED, reason): n for reason, n in rejections([mapped]).items()})
            if (accepted := mapped.accepted).num_rows:
                yield accepted


@dataclass(frozen=True)
class ShardTask:
    """What workers do with the accepted requests of a shard; they get it pickled.

    Attributes:
        schema: The fields of requests that are packed.
        constants: Those that are the same in all rows, and are not.
        has_own_answers: Whether requests wait for answers with their ids.
    """

    schema: pa.Schema
    constants: Mapping[str, str | float]
    has_own_answers: bool

    @property
    def result_schema(self) -> pa.Schema:
        """The fields of requests that the shard returns."""
        if "request_id" not in self.schema.names:
            return self.schema.append(pa.field("request_id", pa.string()))
        own_key = [pa.field(OWN_KEY, pa.string())] if self.has_own_answers else []
        return pa.schema([*self.schema, *own_key])

    def decide(self, packed: pa.Table) -> pa.Table:
        """Return the requests of one shard without repeated ones, and counts, as `FOUND`."""
        freeze_imported_objects()
        counts: _Counts = Counter()
        for row in packing.unpacked(packed, _COUNTED, COUNTS).to_pylist():
            counts[row["name"], row["reason"]] += row["rows"]
        found: list[pa.RecordBatch] = []
        rows = self._with_constants(packing.unpacked(packed, ACCEPTED, self.schema))
        if "request_id" in self.schema.names:
            repeated = repeated_requests(rows)
            if repeated.any():
                counts[REJECTED, REPEATED] += int(repeated.sum())
                ids = rows.select(["host", "request_id"]).filter(pa.array(repeated))
                found += _blobs(REPEATED_IDS, ids)
                rows = rows.filter(pa.array(~repeated))
            if self.has_own_answers:
                rows = rows.append_column(OWN_KEY, keys_of_reused_ids(rows))
        else:
            rows = rows.append_column("request_id", numbered_ids(rows))
        found += _blobs(ACCEPTED, rows.select(self.result_schema.names))
        return pa.Table.from_batches([*found, *_counts(counts)], FOUND)

    def _with_constants(self, rows: pa.Table) -> pa.Table:
        for name, value in self.constants.items():
            kind = ARROW_SCHEMAS["requests"].field(name).type
            rows = rows.append_column(name, pa.repeat(pa.scalar(value, kind), rows.num_rows))
        return rows


def unpack(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of blobs, of the fields of a schema."""
    for blob in (blob for batch in batches for blob in batch.column("blob")):
        rows = packing.from_blob(blob.as_buffer()).select(schema.names)
        yield from rows.cast(schema).to_batches()


def _blobs(kind: str, rows: pa.Table | pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows.num_rows, packing.MOST_BLOB_ROWS):
        blob = packing.to_blob(rows.slice(start, packing.MOST_BLOB_ROWS))
        yield _found(pa.array([kind]), packing.binary_array([blob]))


def _counts(counts: _Counts) -> Iterator[pa.RecordBatch]:
    rows = _count_rows(counts)
    nulls = [pa.nulls(rows.num_rows, field.type) for field in FOUND][:2]
    yield _found(*nulls, *rows.columns)


def _count_rows(counts: _Counts) -> pa.RecordBatch:
    names, reasons = ([key[at] for key in counts] for at in (0, 1))
    columns = zip((names, reasons, list(counts.values())), COUNTS, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in columns], schema=COUNTS
    )


def _found(*columns: pa.Array) -> pa.RecordBatch:
    rows = len(columns[0])
    rest = [pa.nulls(rows, field.type) for field in FOUND][len(columns) :]
    return pa.RecordBatch.from_arrays([*columns, *rest], schema=FOUND)
