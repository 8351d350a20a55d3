"""What Python workers do with the rows of mapped tables: count them, and keep those accepted.

A worker maps and checks rows, and packs what it accepts into blobs by shard. The shard then finds
the repeated requests, or numbers those without ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._rows import packing
from purgatory_spark._rows.column_checks import MALFORMED
from purgatory_spark._rows.mapped_columns import IS_REPEATED_HOUR, rejections
from purgatory_spark._rows.mapped_requests import (
    as_keys,
    ends,
    host_hashes,
    keys_of_reused_ids,
    repeated_requests,
)
from purgatory_spark._rows.mapped_rows import BatchMapper
from purgatory_spark._rows.repeats import REPEATED
from purgatory_spark._rows.request_numbers import numbered_ids
from purgatory_spark._rows.row_counts import COUNTS, REJECTED
from purgatory_spark._rows.schema import EVENTS, REQUESTS
from purgatory_spark._rows.trace_columns import ARROW_SCHEMAS
from purgatory_spark._spark.hashes import hash_strings
from purgatory_spark._spark.worker_gc import freeze_imported_objects
from purgatory_spark._spark.written_files import TableFile

#: The column that says whether a row is malformed.
IS_MALFORMED = "_purgatory_is_malformed"
#: The key of a request that waits for its own answer, where that is not its id.
OWN_KEY = "own_key"
#: The kinds of blobs. Repeated requests are their hosts and ids.
ACCEPTED, REPEATED_IDS = "accepted", "repeated"
_COUNTED = "counts"
#: What a shard returns: blobs of a kind, or counts.
FOUND = pa.schema([pa.field("kind", pa.string()), pa.field("blob", pa.binary()), *COUNTS])
#: What a task that writes returns: counts, and files with their numbers of rows.
WRITTEN = pa.schema([*COUNTS, pa.field("file", pa.string())])

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

    def write(self, batches: Iterable[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
        """Write accepted events, and yield `WRITTEN`."""
        counts: _Counts = Counter()
        events = TableFile(f"{folder}/events", EVENTS)
        for rows in self._accepted(batches, counts):
            # Dictionaries of rows that were rejected, too, may have null.
            plain = {field.name: rows.column(field.name).cast(field.type) for field in self.schema}
            columns = dict(zip(rows.schema.names, rows.columns, strict=True))
            events.write(pa.table(columns | plain))
        yield from _written(counts, {"events": events})

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
            # Rows of Parquet files have no such column, nor malformed rows.
            has_malformed = IS_MALFORMED in batch.schema.names
            if has_malformed and batch.column(IS_MALFORMED).true_count:
                is_malformed = batch.column(IS_MALFORMED)
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
        has_ends: Whether the ends of requests are events.
        has_own_answers: Whether requests wait for answers with their ids.
    """

    schema: pa.Schema
    constants: Mapping[str, str | float]
    has_ends: bool
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
        counts: _Counts = Counter()
        rows, repeated = self._decided(packed, counts)
        blobs = [_blobs(ACCEPTED, rows.select(self.result_schema.names))]
        blobs += [] if repeated is None else [_blobs(REPEATED_IDS, repeated)]
        return pa.Table.from_batches([*chain(*blobs), *_counts(counts)], FOUND)

    def write(self, batches: Iterable[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
        """Write requests, and their ends as events, of shards in order; yield `WRITTEN`."""
        counts: _Counts = Counter()
        requests = TableFile(f"{folder}/requests", REQUESTS)
        events = TableFile(f"{folder}/events", EVENTS)
        for packed in _by_shard(batches):
            rows, _ = self._decided(packed, counts)
            if "watch_keys" not in rows.schema.names:
                keys = rows.column("request_id")
                if OWN_KEY in rows.schema.names:
                    keys = pc.coalesce(rows.column(OWN_KEY), keys)
                rows = rows.append_column("watch_keys", as_keys(keys))
            for name, column in packing.passed_columns(rows).items():
                rows = rows.set_column(rows.schema.get_field_index(name), name, column)
            requests.write(rows)
            if self.has_ends:
                events.write(ends(rows))
        yield from _written(counts, {"requests": requests, "events": events})

    def _decided(self, packed: pa.Table, counts: _Counts) -> tuple[pa.Table, pa.Table | None]:
        """Return the requests of one shard, and the hosts and ids of those that are repeated."""
        freeze_imported_objects()
        for row in packing.unpacked(packed, _COUNTED, COUNTS).to_pylist():
            counts[row["name"], row["reason"]] += row["rows"]
        ids = None
        rows = self._with_constants(packing.unpacked(packed, ACCEPTED, self.schema))
        if "request_id" in self.schema.names:
            repeated = repeated_requests(rows)
            if repeated.any():
                counts[REJECTED, REPEATED] += int(repeated.sum())
                ids = rows.select(["host", "request_id"]).filter(pa.array(repeated))
                rows = rows.filter(pa.array(~repeated))
            if self.has_own_answers:
                rows = rows.append_column(OWN_KEY, keys_of_reused_ids(rows))
        else:
            rows = rows.append_column("request_id", numbered_ids(rows))
        return rows, ids

    def _with_constants(self, rows: pa.Table) -> pa.Table:
        for name, value in self.constants.items():
            kind = ARROW_SCHEMAS["requests"].field(name).type
            column = pa.repeat(pa.scalar(value, kind), rows.num_rows)
            if isinstance(value, str):
                zeros = pa.array(np.zeros(rows.num_rows, dtype=np.int32))
                column = pa.DictionaryArray.from_arrays(zeros, pa.array([value]))
            rows = rows.append_column(name, column)
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


def _by_shard(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of each shard, of rows in order of shards."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        shards = batch.column("shard").to_numpy()
        starts = [0, *(np.flatnonzero(shards[1:] != shards[:-1]) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], len(shards)], strict=True):
            if waiting and waiting[0].column("shard")[0].as_py() != shards[start]:
                yield pa.Table.from_batches(waiting)
                waiting = []
            waiting.append(batch.slice(start, end - start))
    if waiting:
        yield pa.Table.from_batches(waiting)


def _written(counts: _Counts, files: Mapping[str, TableFile]) -> Iterator[pa.RecordBatch]:
    rows = _count_rows(counts)
    no_files = pa.nulls(rows.num_rows, pa.string())
    yield pa.RecordBatch.from_arrays([*rows.columns, no_files], schema=WRITTEN)
    for name, file in files.items():
        file.close()
        if file.rows:
            yield pa.RecordBatch.from_arrays(
                [[f"{name} out"], pa.nulls(1, pa.string()), [file.rows], [file.name]],
                schema=WRITTEN,
            )


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
