"""Compute the fields of requests and events from rows of a mapped table, in Python workers.

`mapped_columns` has the rules. Only the mapped columns pass through Python: what describes a row,
such as the whole row, stays with Spark.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from purgatory_spark._rows.checks import REASON, malformed_check
from purgatory_spark._rows.mapped_columns import (
    MappedColumns,
    map_event_columns,
    map_request_columns,
)
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.repeated_hours import IS_SECOND, with_second_hours
from purgatory_spark._rows.schema import EVENTS, REQUESTS
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


def request_rows(rows: DataFrame, mapping: TableMapping) -> DataFrame:
    """Return `SOURCE`, `RAW`, `CORRUPT`, `REASON`, and the fields of requests.

    Times are `arrived_us` and `ended_us`, and `IS_REPEATED_HOUR` says whether one of them may mean
    two times, unless the mapping's zone is UTC.
    """
    time = mapping.column("arrived_at" if "arrived_at" in mapping.columns else "ended_at")
    return _mapped(rows, mapping, mapping.input_columns, time, map_request_columns)


def event_rows(rows: DataFrame, mapping: TableMapping) -> DataFrame:
    """Return the same of events, with the time as `occurred_us`."""
    columns = list(dict.fromkeys(mapping.event_columns.values()))
    time = mapping.event_columns["occurred_at"]
    return _mapped(rows, mapping, columns, time, map_event_columns)


def _mapped(
    rows: DataFrame,
    mapping: TableMapping,
    columns: list[str],
    time: str,
    map_columns: Callable[..., MappedColumns],
) -> DataFrame:
    inputs = [F.col(quote_column(name)) for name in columns]
    # Columns of types that can't hold their fields are errors here already.
    empty = pa.RecordBatch.from_pylist([], utc_schema(rows.select(*inputs).schema))
    expected = map_columns(empty, mapping)
    constants = expected.constants
    names = [name for name in expected.fields.schema.names if name not in constants]
    fields = [pa.field(name, _plain(expected.fields.column(name)).type) for name in names]
    fields.append(pa.field(REASON, pa.string()))
    is_second = F.lit(False)
    if mapping.time_zone != "UTC" and POSITION in rows.columns:
        # Rows without a position have no order, as those of a table.
        rows = with_second_hours(rows, time, mapping.time_unit, mapping.time_zone)
        is_second = F.col(IS_SECOND)

    def map_batch(given: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_struct_array(given)
        found = map_columns(batch.select(columns), mapping, batch.column(IS_SECOND))
        reasons = pa.nulls(len(batch)) if found.reasons is None else found.reasons
        arrays = [*[_plain(found.fields.column(name)) for name in names], reasons]
        return pa.StructArray.from_arrays(
            [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)],
            fields=fields,
        )

    result_type = from_arrow_schema(pa.schema(fields)).simpleString()
    # Spark may compute a deterministic function again for each filter and field.
    # Its stubs ask for a type of function that it warns of, where there are type hints.
    mapped = arrow_udf(map_batch, result_type)  # type: ignore[call-overload]
    mapped = mapped.asNondeterministic()
    parsed = rows.select(
        SOURCE, RAW, CORRUPT, mapped(F.struct(*inputs, is_second.alias(IS_SECOND))).alias(_FIELDS)
    )

    def value(name: str) -> Column:
        if name in constants:
            kind = _plain(expected.fields.column(name)).type
            return F.lit(constants[name]).cast(from_arrow_type(kind))
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
