"""Outcomes of tables whose columns are mapped, in one pass, without requests and events as rows.

A Python worker maps and checks the rows, and packs what it accepts into blobs by shard. The shard
decides what depends on other rows (`mapped_requests`), and computes the outcomes. So a row passes
through Spark once, with its mapped columns alone. Rejects are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from purgatory_spark._outcomes.batch import PACKED, by_shard, results_of, sharding_of
from purgatory_spark._outcomes.condition import NEVER, satisfied_us
from purgatory_spark._outcomes.shards import (
    MOST_BLOB_ROWS,
    Sharding,
    buffered,
    pack_rows,
    unpack,
)
from purgatory_spark._rows import packing
from purgatory_spark._rows.checks import malformed_check
from purgatory_spark._rows.mapped_batches import map_batches
from purgatory_spark._rows.mapped_columns import IS_REPEATED_HOUR
from purgatory_spark._rows.mapped_requests import (
    as_keys,
    ends,
    own_answers_us,
    repeated_requests,
)
from purgatory_spark._rows.mapped_rows import (
    BatchMapper,
    MappedTables,
    MapperInput,
    event_input,
    request_input,
)
from purgatory_spark._rows.request_numbers import numbered_ids
from purgatory_spark._rows.schema import ARROW_SCHEMAS, IDENTITY
from purgatory_spark._spark.arrays import Ints, Words, one_chunk
from purgatory_spark._spark.hashes import hash_strings
from purgatory_spark._spark.parquet_splits import TableFiles
from purgatory_spark._spark.scanned_files import scanned_files
from purgatory_spark._spark.worker_gc import freeze_imported_objects

_FIELDS = ARROW_SCHEMAS["requests"]
#: The fields of a mapped request that its outcome has, or is computed from.
_OF_OUTCOME = (*IDENTITY, "arrived_at", "timeout_ms")


def mapped_satisfactions(
    tables: MappedTables, *, parts: Mapping[str, int] | None = None, are_few: bool = False
) -> DataFrame:
    """Compute how each request ends, as `batch.satisfactions` does of the mapped rows.

    `parts`: the hosts that get a shard of their own; none is divided by watch key.
    """
    mapping = tables.mapping
    table = request_input(tables.requests, mapping)
    files = [scanned_files(table.rows, table.given)]
    events = None if tables.events is None else event_input(tables.events, mapping)
    if events is not None:
        files.append(scanned_files(events.rows, events.given))
    sharding = sharding_of(tables.requests.sparkSession, parts, files, are_few=are_few)
    names = [name for name in table.schema.names if name != IS_REPEATED_HOUR]
    task = ShardTask(
        pa.schema([table.schema.field(name) for name in names]),
        table.expected.constants,
        has_events=tables.events is not None,
        is_divisible=tables.is_divisible,
    )
    pack = partial(task.pack, mapper=table.mapper, sharding=sharding)
    packed = _packed(table, files[0], pack)
    if events is not None:
        pack = partial(_pack_events, mapper=events.mapper, sharding=sharding)
        packed = packed.unionByName(_packed(events, files[1], pack))
    fields = from_arrow_schema(task.result_schema)
    satisfied = by_shard(packed, sharding).applyInArrow(lambda rows: task.satisfy(rows), fields)

    def value(name: str) -> Column:
        if name not in task.constants:
            return F.col(name)
        return F.lit(task.constants[name]).cast(from_arrow_type(_FIELDS.field(name).type))

    arrived_us, no_text = F.col("arrived_at"), F.lit(None).cast("string")
    return results_of(
        satisfied.select(
            *[value(name).alias(name) for name in IDENTITY],
            arrived_us.alias("arrived_us"),
            (arrived_us + value("timeout_ms").cast("bigint") * 1000).alias("deadline_us"),
            "satisfied_us",
            no_text.alias("reason"),
            no_text.alias("row"),
        )
    )


@dataclass(frozen=True)
class ShardTask:
    """What workers do with the requests of a table; they get it pickled.

    Attributes:
        schema: The fields of requests that are packed.
        constants: Those that are the same in all rows, and are not.
        has_events: Whether events are a table of their own.
        is_divisible: Whether only requests with an id in common have to meet in a shard.
    """

    schema: pa.Schema
    constants: Mapping[str, str | float]
    has_events: bool
    is_divisible: bool

    @property
    def is_own(self) -> bool:
        """Whether each request waits for its own answer alone."""
        return not self.has_events and "watch_keys" not in self.schema.names

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of an outcome, and of what it is computed from, that are not constants."""
        names = [name for name in _OF_OUTCOME if name not in self.constants]
        fields = [_FIELDS.field(name) for name in names]
        return pa.schema([*fields, pa.field("satisfied_us", pa.int64())])

    def pack(
        self, batches: Iterable[pa.RecordBatch], mapper: BatchMapper, sharding: Sharding
    ) -> Iterator[pa.RecordBatch]:
        """Map and check requests, and yield those that are accepted, packed by shard."""
        for rows in _accepted(batches, mapper):
            hosts = rows.column("host")
            number = hosts.indices.to_numpy()
            hashes = hash_strings(hosts.dictionary, _zeros(len(hosts.dictionary)))
            if self.is_divisible:
                ids = hash_strings(rows.column("request_id"), hashes[number])
                shards = (ids % np.uint64(sharding.shards)).astype(np.int64)
            else:
                shards = sharding.host_shards(hosts.dictionary, hashes)[0][number]
            rows = rows.select(self.schema.names)
            blobs = packing.blobs_by_shard(rows, shards, most_rows=MOST_BLOB_ROWS)
            yield packing.packed_batch("requests", blobs)

    def satisfy(self, packed: pa.Table) -> pa.Table:
        """Return when the requests of one shard are satisfied; repeated ones are left out."""
        freeze_imported_objects()
        rows = self._with_constants(unpack(packed, "requests", self.schema))
        if "request_id" in rows.schema.names:
            repeated = repeated_requests(rows)
            if repeated.any():
                rows = rows.filter(pa.array(~repeated))
        else:
            rows = rows.append_column("request_id", numbered_ids(rows))
        satisfied = own_answers_us(rows, int(NEVER)) if self.is_own else self._waits(rows, packed)
        for name, column in packing.passed_columns(rows).items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        names = self.result_schema.names
        result = rows.append_column("satisfied_us", pa.array(satisfied, mask=satisfied == NEVER))
        return result.select(names)

    def _with_constants(self, rows: pa.Table) -> pa.Table:
        for name, value in self.constants.items():
            column = pa.repeat(pa.scalar(value, _FIELDS.field(name).type), rows.num_rows)
            rows = rows.append_column(name, column)
        return rows

    def _waits(self, rows: pa.Table, packed: pa.Table) -> Ints:
        """Return when requests are satisfied that wait for events on their keys."""
        if "watch_keys" not in rows.schema.names:
            rows = rows.append_column("watch_keys", as_keys(rows.column("request_id")))
        if self.has_events:
            events = unpack(packed, "events")
        else:
            events = ends(rows)
            keys = hash_strings(one_chunk(events.column("key")), _hashes_of(events))
            events = events.set_column(events.schema.get_field_index("key"), "key", pa.array(keys))
        keys, _ = packing.hash_watch_keys(
            one_chunk(rows.column("watch_keys")), _hashes_of(rows), hash_strings
        )
        at = rows.schema.get_field_index("watch_keys")
        return satisfied_us(rows.set_column(at, "watch_keys", keys), events)


def _packed(
    table: MapperInput,
    files: TableFiles | None,
    pack: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> DataFrame:
    # The rule of malformed rows, which have no outcomes.
    rows = table.rows.where(~malformed_check()[1]).select(*table.columns)
    return map_batches(table, files, rows, pack, PACKED)


def _pack_events(
    batches: Iterable[pa.RecordBatch], mapper: BatchMapper, sharding: Sharding
) -> Iterator[pa.RecordBatch]:
    for rows in _accepted(batches, mapper):
        yield pack_rows(rows, "events", sharding)


def _accepted(batches: Iterable[pa.RecordBatch], mapper: BatchMapper) -> Iterator[pa.RecordBatch]:
    """Map and check rows, and yield those that are accepted."""
    freeze_imported_objects()
    for table in buffered(batches):
        rows = mapper(table.combine_chunks().to_batches()[0]).accepted
        if rows.num_rows:
            yield rows


def _hashes_of(rows: pa.Table) -> Words:
    """Return a hash of each row's host, as `shards.pack_rows` has it."""
    hosts = one_chunk(rows.column("host"))
    return hash_strings(hosts, _zeros(len(hosts)))


def _zeros(count: int) -> Words:
    zeros: Words = np.zeros(count, dtype=np.uint64)
    return zeros
