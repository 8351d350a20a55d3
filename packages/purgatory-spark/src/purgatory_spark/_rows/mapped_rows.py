"""Compute the fields of requests and events from rows of a mapped table, in Python workers.

`mapped_columns` has the rules. Only the mapped columns pass through Python: what describes a row,
such as the whole row, stays with Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from purgatory_spark._rows.checks import REASON, malformed_check
from purgatory_spark._rows.mapped_columns import (
    MappedColumns,
    map_event_columns,
    map_request_columns,
)
from purgatory_spark._rows.mapping import HOST, TableMapping
from purgatory_spark._rows.repeated_hours import IS_SECOND, with_second_hours
from purgatory_spark._rows.request_numbers import ID_DIGITS
from purgatory_spark._rows.schema import EVENTS, PASSED, REQUESTS
from purgatory_spark._spark.files import (
    CORRUPT,
    POSITION,
    RAW,
    SOURCE,
    quote_column,
)
from purgatory_spark._spark.schemas import utc_schema

_FIELDS = "_purgatory_fields"
#: The names of times while they are microseconds.
MICROS = {"arrived_at": "arrived_us", "ended_at": "ended_us", "occurred_at": "occurred_us"}


def with_row_columns(table: DataFrame, source: str | None = None) -> DataFrame:
    """Return a table with the columns that describe a row and its source, unless it has them."""
    described = {
        CORRUPT: F.lit(None).cast("string"),
        RAW: F.struct("*"),
        SOURCE: F.lit(source).cast("string"),
    }
    missing = [
        column.alias(name) for name, column in described.items() if name not in table.columns
    ]
    return table.select("*", *missing)


@dataclass(frozen=True)
class BatchMapper:
    """Map batches whose first columns are these, in a Python worker."""

    columns: Sequence[str]
    mapping: TableMapping
    map_columns: Callable[..., MappedColumns]

    def __call__(self, batch: pa.RecordBatch) -> MappedColumns:
        has_order = IS_SECOND in batch.schema.names
        is_second = batch.column(IS_SECOND) if has_order else None
        arrays = batch.columns[: len(self.columns)]
        given = pa.RecordBatch.from_arrays(arrays, names=list(self.columns))
        return self.map_columns(given, self.mapping, is_second)


@dataclass(frozen=True)
class MapperInput:
    """A table, its columns that are mapped, and what mapping them gives.

    Attributes:
        rows: The table; it may have further columns.
        columns: The columns that the mapper gets, under names without dots.
        mapper: The function that maps batches of them.
        expected: What it returns for a batch without rows.
        given: The columns that the mapper gets, under the table's names, with times in UTC.
    """

    rows: DataFrame
    columns: list[Column]
    mapper: BatchMapper
    expected: MappedColumns
    given: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        """The fields that depend on the rows, as they are without dictionaries."""
        fields = self.expected.fields
        names = [name for name in fields.schema.names if name not in self.expected.constants]
        return pa.schema({name: _plain(fields.column(name)).type for name in names})

    def constant(self, name: str) -> Column:
        """Return a field that is the same in all rows."""
        kind = _plain(self.expected.fields.column(name)).type
        return F.lit(self.expected.constants[name]).cast(from_arrow_type(kind))


@dataclass(frozen=True)
class MappedTables:
    """Tables with the columns of `with_row_columns`, which are not mapped yet."""

    requests: DataFrame
    mapping: TableMapping
    events: DataFrame | None = None

    @property
    def is_divisible(self) -> bool:
        """Whether requests of a host need not meet, as each has an id and its own answer."""
        has_ids = "request_id" in self.mapping.columns
        return has_ids and self.events is None and not self.mapping.key_columns

    @property
    def has_known_usage(self) -> bool:
        """Whether each request has one key, and the mapping has the timeouts in use."""
        return "timeout_ms" not in self.mapping.columns and not self.mapping.key_columns

    def unparsed(self) -> tuple[DataFrame, DataFrame | None]:
        """Return both tables in the schema as far as their sizes need it, with all rejects.

        There are no events if they are the ends of requests.
        """
        columns, keys = self.mapping.columns, self.mapping.key_columns
        named = {"host": F.lit(HOST), "request_id": F.lit("0" * ID_DIGITS)}
        named |= {column.name: F.lit(column.default).cast("string") for column in PASSED}
        named |= {name: _text(columns[name]) for name in named if name in columns}
        watched = F.array(*[_text(name) for name in keys])
        if not keys:
            watched = F.array(named["request_id"])
        elif isinstance(self.requests.schema[keys[0]].dataType, T.ArrayType):
            watched = F.col(quote_column(keys[0])).cast("array<string>")
        requests = self.requests.select(
            *[value.alias(name) for name, value in named.items()],
            watched.alias("watch_keys"),
            F.lit(self.mapping.timeout_ms).alias("timeout_ms"),
        ).where("host IS NOT NULL")
        if self.events is None:
            return requests, None
        of_events = self.mapping.event_columns
        host = _text(of_events["host"]) if "host" in of_events else F.lit(HOST)
        key = _text(of_events["key"])
        events = self.events.select(host.alias("host"), key.alias("key"))
        return requests, events.where("host IS NOT NULL")


def _text(column: str | tuple[str, ...]) -> Column:
    return F.col(quote_column(str(column))).cast("string")


def request_input(rows: DataFrame, mapping: TableMapping) -> MapperInput:
    time = mapping.column("arrived_at" if "arrived_at" in mapping.columns else "ended_at")
    return _mapper_input(rows, mapping, mapping.input_columns, time, map_request_columns)


def event_input(rows: DataFrame, mapping: TableMapping) -> MapperInput:
    columns = list(dict.fromkeys(mapping.event_columns.values()))
    time = mapping.event_columns["occurred_at"]
    return _mapper_input(rows, mapping, columns, time, map_event_columns)


def request_rows(rows: DataFrame, mapping: TableMapping) -> DataFrame:
    """Return `SOURCE`, `RAW`, `CORRUPT`, `REASON`, and the fields of requests.

    Times are `arrived_us` and `ended_us`, and `IS_REPEATED_HOUR` says whether one of them may mean
    two times, unless the mapping's zone is UTC.
    """
    return _mapped(request_input(rows, mapping))


def event_rows(rows: DataFrame, mapping: TableMapping) -> DataFrame:
    """Return the same of events, with the time as `occurred_us`."""
    return _mapped(event_input(rows, mapping))


def _mapper_input(
    rows: DataFrame,
    mapping: TableMapping,
    columns: list[str],
    time: str,
    map_columns: Callable[..., MappedColumns],
) -> MapperInput:
    # `mapInArrow` takes a dot in a name for a field of a struct.
    inputs = [F.col(quote_column(name)).alias(f"c{number}") for number, name in enumerate(columns)]
    # Columns of types that can't hold their fields are errors here already.
    empty = pa.RecordBatch.from_pylist([], utc_schema(rows.select(*inputs).schema))
    mapper = BatchMapper(columns, mapping, map_columns)
    expected = mapper(empty)
    if mapping.time_zone != "UTC" and POSITION in rows.columns:
        # Rows without a position have no order, as those of a table.
        rows = with_second_hours(rows, time, mapping.time_unit, mapping.time_zone)
        inputs.append(F.col(IS_SECOND))
        empty = empty.append_column(IS_SECOND, pa.array([], pa.bool_()))
        columns = [*columns, IS_SECOND]
    given = pa.schema(list(zip(columns, empty.schema.types, strict=True)))
    return MapperInput(rows, inputs, mapper, expected, given)


def _mapped(table: MapperInput) -> DataFrame:
    expected, mapper, schema = table.expected, table.mapper, table.schema
    fields = [*schema, pa.field(REASON, pa.string())]

    def map_batch(given: pa.Array) -> pa.Array:
        found = mapper(pa.RecordBatch.from_struct_array(given))
        reasons = pa.nulls(len(given)) if found.reasons is None else found.reasons
        arrays = [*[_plain(found.fields.column(name)) for name in schema.names], reasons]
        return pa.StructArray.from_arrays(
            [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)],
            fields=fields,
        )

    result_type = from_arrow_schema(pa.schema(fields)).simpleString()
    # Spark may compute a deterministic function again for each filter and field.
    # Its stubs ask for a type of function that it warns of, where there are type hints.
    mapped = arrow_udf(map_batch, result_type)  # type: ignore[call-overload]
    mapped = mapped.asNondeterministic()
    parsed = table.rows.select(
        SOURCE, RAW, CORRUPT, mapped(F.struct(*table.columns)).alias(_FIELDS)
    )

    def value(name: str) -> Column:
        if name in expected.constants:
            return table.constant(name)
        return F.col(_FIELDS).getField(name)

    reason, is_malformed = malformed_check()
    return parsed.select(
        SOURCE,
        RAW,
        CORRUPT,
        *[value(name).alias(MICROS.get(name, name)) for name in expected.fields.schema.names],
        F.when(is_malformed, reason).otherwise(value(REASON)).alias(REASON),
    )


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def request_columns(watch_keys: Column | None = None) -> list[Column]:
    """Return the columns of `schema.REQUESTS`, of rows with the fields of `request_rows`."""
    computed = {"arrived_at": F.timestamp_micros("arrived_us")}
    if watch_keys is not None:
        computed["watch_keys"] = watch_keys
    return [computed.get(name, F.col(name)).alias(name) for name in REQUESTS.names]


def event_columns() -> list[Column]:
    """Return the columns of `schema.EVENTS`, of rows with the fields of `event_rows`."""
    computed = {"occurred_at": F.timestamp_micros("occurred_us")}
    return [computed.get(name, F.col(name)).alias(name) for name in EVENTS.names]
