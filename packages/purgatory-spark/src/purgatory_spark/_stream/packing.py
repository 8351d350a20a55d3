"""Requests and events of a stream on their way to their shards, in a Python worker.

Spark moves a row's values between the JVM and Python one at a time. So it is given the rows as they
are, and everything else is computed here with vectors: checks, hashes, and what a shard stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._outcomes.reject_rows import rows_as_json
from purgatory_spark._rows import packing
from purgatory_spark._rows.column_checks import quorum_of, reject_reasons
from purgatory_spark._rows.schema import AGGREGATES
from purgatory_spark._spark.arrays import Bools, Ints, Words
from purgatory_spark._spark.files import CORRUPT, RAW, SOURCE, require_no_patterns_in
from purgatory_spark._spark.hashes import SEED, int_with_hash, xxhash64
from purgatory_spark._spark.parquet_files import require_parquet_columns
from purgatory_spark._spark.schemas import batch_to_micros
from purgatory_spark._spark.worker_gc import freeze_imported_objects
from purgatory_spark._stream.parquet_rows import FILE, rows_of_files
from purgatory_spark._stream.state import rows

#: Blobs on their way to their shards: `shard` is the number by which Spark knows the shard,
#: `event_us` the time of the last good row that was packed with it, in microseconds since the
#: epoch, or null.
TIMED_SCHEMA = packing.PACKED_SCHEMA.append(pa.field("event_us", pa.int64()))
# For what is only passed on within a batch, LZ4 takes half of the time of zstd.
_PASSED_ON = pa.ipc.IpcWriteOptions(compression="lz4")

#: Quantifiers as numbers; others are the number of keys that is needed.
_ALL, _ANY = 0, -1


def shard_labels(shards: int, *, even: bool) -> tuple[int, ...]:
    """Return the number by which Spark knows each shard: it groups blobs by it, and stores state.

    Spark sends a label to the partition `hash(label) mod partitions`. So the labels 0, 1, 2 and so
    on are spread by chance: of 4 shards in 4 partitions, two partitions have none.

    `even`: whether the hashes of the labels are 0, 1, 2 and so on, so that the shards go round the
    partitions.
    """
    return tuple(int_with_hash(shard) if even else shard for shard in range(shards))


@dataclass(frozen=True)
class Packer:
    """Checks the rows of one input, or of its files, and packs them into a blob for each shard.

    A Parquet file that the column `SOURCE` names must have the `file_columns`. No path in the
    `folder` may have a pattern's characters, of which `require_no_pattern` says why. A file of a
    batch is there before the batch's first task, so the task ends before any of its rows count.
    """

    kind: str
    labels: tuple[int, ...]
    by_key: bool
    file_columns: tuple[str, ...]
    folder: str | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_imported_objects()
        if self.folder is not None:
            require_no_patterns_in(Path(self.folder))
        for batch in batches:
            if batch.schema.names == [FILE]:
                for rows_of_file in rows_of_files(batch.column(FILE).to_pylist(), self.kind):
                    yield self.pack(rows_of_file)
            elif batch.num_rows:
                yield self.pack(batch_to_micros(batch))

    def pack(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if SOURCE in batch.schema.names:
            for file in batch.column(SOURCE).drop_null().unique().to_pylist():
                require_parquet_columns(file, self.file_columns)
        encoded = packing.encoded_rows(pa.Table.from_batches([batch]), self.kind)
        packed, event_us = [], None
        texts = _row_texts(batch)
        reasons = self._reasons(batch, encoded)
        if reasons.null_count < len(reasons):
            is_bad = reasons.is_valid()
            # An unusable row may lack the columns that decide its shard. Any shard can report it.
            parts = (encoded, texts, reasons, _malformed(batch))
            rejects = _rejects(*[part.filter(is_bad) for part in parts])
            blob = packing.to_blob(rejects, _PASSED_ON)
            packed.append(packing.packed_batch(rows.REJECTS, [(self.labels[0], blob)]))
            is_good = pc.invert(is_bad)
            encoded, texts = encoded.filter(is_good), texts.filter(is_good)
        if encoded.num_rows:
            if self.kind == rows.REQUESTS:
                good, shard_hashes, event_us = self._request_columns(encoded, texts)
            else:
                good, shard_hashes, event_us = self._event_columns(encoded, texts)
            # Spark's `pmod` of the hash as a signed number.
            shards = shard_hashes.view(np.int64) % len(self.labels)
            blobs = packing.blobs_by_shard(good, shards, options=_PASSED_ON)
            labelled = [(self.labels[shard], blob) for shard, blob in blobs]
            packed.append(packing.packed_batch(self.kind, labelled))
        blobs = pa.Table.from_batches(packed).combine_chunks()
        times = pa.repeat(pa.scalar(event_us, pa.int64()), blobs.num_rows)
        return blobs.append_column("event_us", times).to_batches()[0]

    def _reasons(self, batch: pa.RecordBatch, encoded: pa.RecordBatch) -> pa.Array:
        """Return why rows are unusable, null for good ones."""
        reasons = reject_reasons(encoded, self.kind)
        if reasons is None:
            reasons = pa.nulls(batch.num_rows, pa.string())
        if self.by_key and self.kind == rows.REQUESTS:
            is_bad = pc.not_equal(pc.list_value_length(encoded.column("watch_keys")), 1)
            reason = pa.scalar("not exactly one watch key (route by key)")
            reasons = pc.coalesce(reasons, pc.if_else(is_bad, reason, None))
        if CORRUPT in batch.schema.names:
            reasons = pc.coalesce(batch.column(CORRUPT), reasons)
        return reasons

    def _request_columns(
        self, encoded: pa.RecordBatch, texts: pa.Array
    ) -> tuple[pa.RecordBatch, Words, int]:
        """Return what shards take of good requests, what decides their shards, and the last time.

        Unusable rows must not advance the watermark, so that is the time of these rows.
        """
        hosts = _host_hashes(encoded)
        needed = _values(encoded.column("quantifier"), _needed, np.int32)
        keys, first_keys = packing.hash_watch_keys(encoded.column("watch_keys"), hosts, xxhash64)
        is_quorum = needed > 0
        if is_quorum.any():
            # With a number, a key that is listed several times counts once.
            keys = _distinct(keys, is_quorum)
        # "all" needs as many as there are, "any" needs one.
        needed = np.where(needed == _ALL, np.diff(keys.offsets.to_numpy()), abs(needed))
        arrived_us = encoded.column("arrived_at").to_numpy()
        timeout_us = encoded.column("timeout_ms").to_numpy().astype(np.int64) * 1000
        columns = {
            "id": xxhash64(encoded.column("request_id").cast(pa.string()), hosts).view(np.int64),
            "host": encoded.column("host").cast(pa.string()),
            "request_id": encoded.column("request_id"),
            **{
                name: text.cast(pa.string())
                for name, text in packing.passed_columns(encoded).items()
            },
            "arrived_us": arrived_us,
            "deadline_us": arrived_us + timeout_us,
            "keys": pa.ListArray.from_arrays(keys.offsets, keys.values.view(pa.int64())),
            "aggregate": _values(encoded.column("aggregate"), _aggregate, np.int8),
            "threshold": encoded.column("threshold"),
            "needed": needed.astype(np.int32),
            "watch_keys": encoded.column("watch_keys"),
            "quantifier": encoded.column("quantifier").cast(pa.string()),
            "row": texts,
        }
        good = _record_batch(columns, rows.REQUEST_SCHEMA)
        return good, first_keys if self.by_key else hosts, int(arrived_us.max())

    def _event_columns(
        self, encoded: pa.RecordBatch, texts: pa.Array
    ) -> tuple[pa.RecordBatch, Words, int]:
        hosts = _host_hashes(encoded)
        keys = xxhash64(encoded.column("key").cast(pa.string()), hosts)
        occurred_us = encoded.column("occurred_at").to_numpy()
        columns = {
            "key": keys.view(np.int64),
            "us": occurred_us,
            "amount": encoded.column("amount"),
            "host": encoded.column("host").cast(pa.string()),
            "event_key": encoded.column("key"),
            "row": texts,
        }
        good = _record_batch(columns, rows.EVENT_INPUT_SCHEMA)
        return good, keys if self.by_key else hosts, int(occurred_us.max())


def _row_texts(batch: pa.RecordBatch) -> pa.Array:
    """Return the texts of malformed rows, and of a mapped input's rows; null for others."""
    if RAW in batch.schema.names:
        return batch.column(RAW)
    return pa.nulls(batch.num_rows, pa.string())


def _malformed(batch: pa.RecordBatch) -> pa.Array:
    """Return whether each row could not be read as columns at all."""
    if CORRUPT in batch.schema.names:
        return batch.column(CORRUPT).is_valid()
    return pa.repeat(pa.scalar(False), batch.num_rows)


def _rejects(
    encoded: pa.RecordBatch, texts: pa.Array, reasons: pa.Array, malformed: pa.Array
) -> pa.RecordBatch:
    """Return unusable rows with their reasons: as text if there is one, others as JSON.

    A malformed row without a text, such as a Kafka record without a value, stays null.
    """
    as_json = pa.array(rows_as_json(encoded), pa.string())
    texts = pc.coalesce(texts, pc.if_else(malformed, pa.scalar(None, pa.string()), as_json))
    return pa.record_batch([reasons, texts], schema=rows.REJECT_INPUT_SCHEMA)


def _record_batch(columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


def _host_hashes(encoded: pa.RecordBatch) -> Words:
    """Return the hash of each row's host, which is the seed of the hashes of its other columns."""
    hosts = encoded.column("host")
    names = pc.fill_null(hosts.dictionary, "")
    hashes: Words = xxhash64(names, np.full(len(names), SEED))[hosts.indices.to_numpy()]
    return hashes


def _values(
    column: pa.DictionaryArray,
    value_of: Callable[[str | None], int],
    kind: type[np.signedinteger[Any]],
) -> Ints:
    """Return a number for each row, by a function of its text.

    The dictionary may have null, and texts of rows that have been taken out.
    """
    values = np.array([value_of(text) for text in column.dictionary.to_pylist()], dtype=kind)
    numbers: Ints = values[column.indices.to_numpy()]
    return numbers


def _aggregate(name: str | None) -> int:
    return AGGREGATES.index(name) if name in AGGREGATES else -1


def _needed(quantifier: str | None) -> int:
    """Return how many keys a quantifier needs: `_ALL`, `_ANY`, or a positive number."""
    return {"all": _ALL, "any": _ANY}.get(quantifier or "", quorum_of(quantifier) or _ALL)


def _distinct(keys: pa.ListArray, chosen: Bools) -> pa.ListArray:
    """Return the lists of hashes, without repetitions in the chosen ones."""
    lengths = np.diff(keys.offsets.to_numpy())
    parent = np.repeat(np.arange(len(lengths)), lengths)
    hashes = keys.values.to_numpy()
    order = np.lexsort((hashes, parent))
    is_again = np.zeros(len(hashes), dtype=bool)
    is_again[order[1:]] = (np.diff(parent[order]) == 0) & (np.diff(hashes[order]) == 0)
    kept = ~(is_again & chosen[parent])
    counts = np.bincount(parent[kept], minlength=len(lengths))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(hashes[kept]))
