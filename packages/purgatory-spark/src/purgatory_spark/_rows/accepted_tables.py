"""The rows of mapped tables that are accepted, in one pass, and how many are not.

What the shards of `accepted_shards` return is what Spark caches, and what requests and events are
read from: some blobs, in which no row is text. Rejects are counted on this way. They are read again
from their table, if there are any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from purgatory_spark._rows.accepted_shards import (
    ACCEPTED,
    FOUND,
    IS_MALFORMED,
    OWN_KEY,
    REPEATED_IDS,
    WRITTEN,
    ShardTask,
    TableTask,
    unpack,
)
from purgatory_spark._rows.chains import flag_repeated, mark_chains
from purgatory_spark._rows.checks import REASON, malformed_check, rejected_rows
from purgatory_spark._rows.mapped_batches import map_batches
from purgatory_spark._rows.mapped_columns import IS_REPEATED_HOUR
from purgatory_spark._rows.mapped_rows import (
    MICROS,
    MappedTables,
    MapperInput,
    event_columns,
    event_input,
    event_rows,
    request_columns,
    request_input,
    request_rows,
)
from purgatory_spark._rows.packing import PACKED_SCHEMA
from purgatory_spark._rows.repeats import REPEATED
from purgatory_spark._rows.row_counts import COUNTS, REJECTED, RowCounts, added_up
from purgatory_spark._rows.schema import ARROW_SCHEMAS, EVENTS, REJECTS, REQUESTS, with_passed
from purgatory_spark._spark.file_columns import with_row_text
from purgatory_spark._spark.scanned_files import scanned_files
from purgatory_spark._spark.spark_tables import write_spark_table
from purgatory_spark._spark.written_files import keep_files, make_table_folder, write_no_rows

#: Ids are looked for by so many hashes, which fit into the memory of any machine.
_BUCKETS = 2**20
_BUCKET = "_purgatory_bucket"
_SHARDS_PER_PARTITION, _MOST_SHARDS = 16, 256
_IDS = pa.schema({"host": pa.string(), "request_id": pa.string()})


@dataclass
class AcceptedTables:
    """The requests and events of tables, whose columns are those of `with_row_columns`, lazily.

    Attributes:
        tables: The tables.
        cached: What Spark caches, if it is to cache something.
    """

    tables: MappedTables
    cached: list[DataFrame] | None

    def __post_init__(self) -> None:
        mapping, events = self.tables.mapping, self.tables.events
        # Columns of types that can't hold their fields are errors here already.
        self._request_input = request_input(self.tables.requests, mapping)
        self._event_input = None if events is None else event_input(events, mapping)

    @cached_property
    def _shard_task(self) -> ShardTask:
        table, mapping = self._request_input, self.tables.mapping
        return ShardTask(
            _kept_fields(table),
            table.expected.constants,
            has_ends=self.tables.events is None,
            has_own_answers=not mapping.key_columns and self.tables.events is None,
        )

    @property
    def _partitions(self) -> int:
        spark = self.tables.requests.sparkSession
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)

    @property
    def _packed_requests(self) -> DataFrame:
        table = self._request_input
        shards = max(self._partitions, min(_MOST_SHARDS, _SHARDS_PER_PARTITION * self._partitions))
        pack = partial(TableTask("rows", table.mapper, _kept_fields(table)).pack, shards=shards)
        return _mapped(table, pack, from_arrow_schema(PACKED_SCHEMA))

    @cached_property
    def _found_requests(self) -> DataFrame:
        task, fields = self._shard_task, from_arrow_schema(FOUND)
        found = self._packed_requests.groupBy("shard").applyInArrow(
            lambda rows: task.decide(rows), fields
        )
        return self._kept(found)

    @cached_property
    def _found_events(self) -> DataFrame | None:
        table = self._event_input
        if table is None:
            return None
        accept = TableTask("events", table.mapper, _kept_fields(table)).accept
        return self._kept(_mapped(table, accept, from_arrow_schema(FOUND)))

    @cached_property
    def requests(self) -> DataFrame:
        """Rows of `schema.REQUESTS`."""
        table, schema = self._request_input, self._shard_task.result_schema
        constants = [name for name in table.expected.constants if name not in schema.names]
        rows = _rows(self._found_requests, table, schema, [*schema.names, *constants])
        if not self.tables.mapping.key_columns:
            rows = rows.withColumn("watch_keys", F.array(_own_key(rows)))
        return with_passed(rows).select(request_columns())

    @cached_property
    def events(self) -> DataFrame:
        """Rows of `schema.EVENTS`, which are the ends of requests without a table of events."""
        if self._event_input is not None and self._found_events is not None:
            names, table = ARROW_SCHEMAS["events"].names, self._event_input
            return _rows(self._found_events, table, _kept_fields(table), names).select(
                event_columns()
            )
        schema, keys = self._shard_task.result_schema, ["watch_keys"]
        if not self.tables.mapping.key_columns:
            keys = [name for name in (OWN_KEY, "request_id") if name in schema.names]
        names = ["host", *keys, "ended_at"]
        rows = _rows(self._found_requests, self._request_input, schema, names)
        key = _own_key(rows)
        if self.tables.mapping.key_columns:
            key = F.explode(F.array_distinct("watch_keys"))
        return rows.where(F.col("ended_us").isNotNull()).select(
            "host",
            key.alias("key"),
            F.timestamp_micros("ended_us").alias("occurred_at"),
            F.lit(1.0).alias("amount"),
        )

    @property
    def counts(self) -> RowCounts:
        found = self._found_requests
        if self._found_events is not None:
            found = found.unionByName(self._found_events)
        counts = found.where("name IS NOT NULL").select(*COUNTS.names)
        return RowCounts(self._counted_names, counts)

    @property
    def _counted_names(self) -> tuple[str, ...]:
        names = ["rows"] if self.tables.events is None else ["rows", "events"]
        kinds = ["in"] if self.tables.mapping.time_zone == "UTC" else ["in", "of a repeated hour"]
        return tuple(f"{name} {kind}" for kind in kinds for name in names)

    @cached_property
    def rejects(self) -> DataFrame:
        """Rows of `schema.REJECTS`."""
        return self._rejects(has_repeated=True)

    def _rejects(self, *, has_repeated: bool) -> DataFrame:
        """Return the rejects, for which the table is read a second time."""
        tables, mapping = self.tables, self.tables.mapping
        flagged = request_rows(tables.requests, mapping)
        is_bad = F.col(REASON).isNotNull()
        if "request_id" in mapping.columns and has_repeated:
            bucket = F.pmod(F.xxhash64("host", "request_id"), F.lit(_BUCKETS)).alias(_BUCKET)
            ids = _unpacked(self._found_requests, REPEATED_IDS, _IDS).select(bucket).distinct()
            flagged = flagged.withColumn(_BUCKET, bucket)
            found = flagged.join(F.broadcast(ids.withColumn("found", F.lit(True))), _BUCKET, "left")
            candidates = with_row_text(found.where(is_bad | F.col("found"))).drop(_BUCKET, "found")
            timeout_us = F.col("timeout_ms").cast("bigint") * 1000
            # Arrivals that are rejects may be any number.
            deadline_us = F.try_add("arrived_us", timeout_us)
            chains = self._kept(mark_chains(candidates, F.col("arrived_us"), deadline_us))
            rejects = rejected_rows(flag_repeated(chains))
        else:
            rejects = rejected_rows(with_row_text(flagged.where(is_bad)))
        if tables.events is None:
            return rejects
        flagged = event_rows(tables.events, mapping).where(is_bad)
        return rejects.unionByName(rejected_rows(with_row_text(flagged)))

    def write(self, target: Path) -> tuple[dict[str, int], dict[str, int]]:
        """Write requests and events into a folder that all workers see, in one job, and rejects.

        Returns:
            The number of rows by name, and of rejects by reason.
        """
        folder, kinds = os.path.abspath(target), from_arrow_schema(WRITTEN)
        in_order = self._packed_requests.repartition(self._partitions, "shard")
        write = partial(self._shard_task.write, folder=folder)
        written = in_order.sortWithinPartitions("shard").mapInArrow(write, kinds)
        if self._event_input is not None:
            table = self._event_input
            write = partial(
                TableTask("events", table.mapper, _kept_fields(table)).write, folder=folder
            )
            written = written.unionByName(_mapped(table, write, kinds))
        schemas = {"requests": REQUESTS, "events": EVENTS}
        for name in schemas:
            make_table_folder(target / name)
        # A task has some counts, and a file of each table.
        found = written.collect()
        for name, schema in schemas.items():
            of_table = [row for row in found if row["name"] == f"{name} out" and row["file"]]
            keep_files(target / name, [row["file"] for row in of_table], schema)
        names = (*self._counted_names, REJECTED, *[f"{name} out" for name in schemas])
        rows, rejected = added_up(names, found)
        if rejected:
            rejects = self._rejects(has_repeated=REPEATED in rejected)
            write_spark_table(rejects, target / "rejects")
        else:
            write_no_rows(target / "rejects", REJECTS)
        return rows, rejected

    def _kept(self, table: DataFrame) -> DataFrame:
        if self.cached is not None:
            self.cached.append(table.persist())
        return table


def _own_key(requests: DataFrame) -> Column:
    """Return the key of requests that wait for an event with their id."""
    names = [name for name in (OWN_KEY, "request_id") if name in requests.columns]
    return F.coalesce(*names) if names else F.lit(None)


def _kept_fields(table: MapperInput) -> pa.Schema:
    """Return the fields that depend on the rows, and are those of the schema."""
    return pa.schema([field for field in table.schema if field.name != IS_REPEATED_HOUR])


def _mapped(
    table: MapperInput,
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: T.StructType,
) -> DataFrame:
    rows = table.rows.select(*table.columns, malformed_check()[1].alias(IS_MALFORMED))
    files = scanned_files(table.rows, table.given)
    return map_batches(table, files, rows, function, schema)


def _unpacked(found: DataFrame, kind: str, schema: pa.Schema) -> DataFrame:
    blobs = found.where(F.col("kind") == kind).select("blob")
    return blobs.mapInArrow(partial(unpack, schema=schema), from_arrow_schema(schema))


def _rows(
    found: DataFrame, table: MapperInput, schema: pa.Schema, names: Sequence[str]
) -> DataFrame:
    """Return the fields of accepted rows, with the constants, under the names of `mapped_rows`."""
    constants = table.expected.constants
    fields = pa.schema([schema.field(name) for name in names if name not in constants])
    columns = [table.constant(name) if name in constants else F.col(name) for name in names]
    return _unpacked(found, ACCEPTED, fields).select(
        *[column.alias(MICROS.get(name, name)) for name, column in zip(names, columns, strict=True)]
    )
