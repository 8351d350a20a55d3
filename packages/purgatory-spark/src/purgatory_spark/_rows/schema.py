"""The tables of the pipeline in Spark; `trace_columns` says what their columns mean."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as in Spark's documentation
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._errors import SchemaError
from purgatory_spark._rows.trace_columns import AGGREGATES as AGGREGATES
from purgatory_spark._rows.trace_columns import ARROW_SCHEMAS as ARROW_SCHEMAS
from purgatory_spark._rows.trace_columns import COMPLETED as COMPLETED
from purgatory_spark._rows.trace_columns import (
    EVENT_COLUMNS,
    OPTIONAL,
    OUTCOME_COLUMNS,
    REQUEST_COLUMNS,
    Column,
)
from purgatory_spark._rows.trace_columns import EXPIRED as EXPIRED
from purgatory_spark._rows.trace_columns import IDENTITY as IDENTITY
from purgatory_spark._rows.trace_columns import MAX_TIMEOUT_MS as MAX_TIMEOUT_MS
from purgatory_spark._rows.trace_columns import NOT_NULL as NOT_NULL
from purgatory_spark._rows.trace_columns import PASSED as PASSED
from purgatory_spark._rows.trace_columns import QUANTIFIERS as QUANTIFIERS
from purgatory_spark._rows.trace_columns import PassedFields as PassedFields
from purgatory_spark._spark.schemas import text_schema
from request_purgatory.errors import InvalidArgumentError

_TYPES: dict[str, T.DataType] = {
    "STRING": T.StringType(),
    "INT": T.IntegerType(),
    "DOUBLE": T.DoubleType(),
    "TIMESTAMP": T.TimestampType(),
    "ARRAY<STRING>": T.ArrayType(T.StringType()),
}


def _field(column: Column) -> T.StructField:
    return T.StructField(column.name, _TYPES[column.type])


REQUESTS = T.StructType([_field(column) for column in REQUEST_COLUMNS])
EVENTS = T.StructType([_field(column) for column in EVENT_COLUMNS])
OUTCOMES = T.StructType([_field(column) for column in OUTCOME_COLUMNS])
#: Rows that an import rejected: the reason, the file, and the row as JSON (malformed ones as text).
REJECTS = text_schema("reason", "source", "row")


def require(
    table: DataFrame, schema: T.StructType, what: str, further: Iterable[str] = ()
) -> DataFrame:
    """Select the columns of `schema` from `table`, in its order; one that it may lack is null."""
    if not isinstance(getattr(table, "schema", None), T.StructType):
        raise InvalidArgumentError(what, "a DataFrame", table)
    given = {field.name: field.dataType for field in table.schema}
    problems = []
    columns = []
    for field in schema:
        wanted = field.dataType.simpleString()
        if field.name in given:
            columns.append(F.col(field.name))
            if given[field.name].simpleString() != wanted:
                problems.append(f"{field.name} is {given[field.name].simpleString()}, not {wanted}")
        elif field.name in OPTIONAL:
            columns.append(F.lit(None).cast(field.dataType).alias(field.name))
        else:
            problems.append(f"{field.name} ({wanted}) is missing")
    if problems:
        raise SchemaError(f"{what}: " + "; ".join(problems))
    return table.select(*columns, *further)


def file_columns(schema: T.StructType) -> tuple[str, ...]:
    return tuple(name for name in schema.names if name not in OPTIONAL)


def with_passed(requests: DataFrame) -> DataFrame:
    """Return requests with all columns of `PASSED`, and their defaults in place of nulls."""
    values = {}
    for column in PASSED:
        default = F.lit(column.default).cast(_field(column).dataType)
        is_there = column.name in requests.columns
        values[column.name] = F.coalesce(column.name, default) if is_there else default
    return requests.withColumns(values)
