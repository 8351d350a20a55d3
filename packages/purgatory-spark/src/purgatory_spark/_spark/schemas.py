"""Schemas of Spark and of Arrow, and times between the two: as microseconds since the epoch.

Spark gives timestamps to Python in the session's time zone, and takes them back in that zone only.
Microseconds are the same numbers in every session.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

# PySpark 4.1 has no such argument: its times are in UTC.
_HAS_ZONE = "timezone" in signature(to_arrow_schema).parameters
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if _HAS_ZONE else {}


def fields_of(kind: T.DataType, *names: str) -> list[T.StructField]:
    return [T.StructField(name, kind) for name in names]


def text_schema(*names: str) -> T.StructType:
    return T.StructType(fields_of(T.StringType(), *names))


def micros_schema(schema: T.StructType) -> T.StructType:
    """Return a schema with bigints in place of timestamps, for what Python returns."""
    return T.StructType(
        [
            T.StructField(field.name, T.LongType() if _is_time(field) else field.dataType)
            for field in schema
        ]
    )


def utc_schema(schema: T.StructType) -> pa.Schema:
    """Return a schema in Arrow, with timestamps in UTC."""
    return to_arrow_schema(schema, **_IN_UTC)


def to_micros(schema: T.StructType) -> list[Column]:
    """Return the columns of `schema` with microseconds in place of timestamps, for Python."""
    return [
        F.unix_micros(field.name).alias(field.name) if _is_time(field) else F.col(field.name)
        for field in schema
    ]


def from_micros(table: DataFrame, schema: T.StructType) -> DataFrame:
    """Return rows of `micros_schema(schema)` as rows of `schema`."""
    return table.select(
        *[
            F.timestamp_micros(field.name).alias(field.name)
            if _is_time(field)
            else F.col(field.name)
            for field in schema
        ]
    )


def batch_to_micros(batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
    """Return a batch, or a table, with microseconds in place of timestamps of microseconds."""
    fields = [
        field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
        for field in batch.schema
    ]
    return batch.cast(pa.schema(fields))


def _is_time(field: T.StructField) -> bool:
    return isinstance(field.dataType, T.TimestampType)
