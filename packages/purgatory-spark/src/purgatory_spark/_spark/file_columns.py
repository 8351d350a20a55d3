"""Columns of rows that Spark reads: nested values, the row as text, and where in a file it was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._spark.files import (
    CORRUPT,
    JSON_OPTIONS,
    POSITION,
    RAW,
    SOURCE,
    quote_column,
)


def with_nested(table: DataFrame, names: Iterable[str]) -> DataFrame:
    """Return a table with the columns `a.b` that name fields of structs, or keys of maps."""
    missing = [name for name in names if name not in table.columns]
    found = {name: _nested_column(table.schema, name) for name in missing}
    return table.select(
        "*", *[column.alias(name) for name, column in found.items() if column is not None]
    )


def _nested_column(schema: T.StructType, name: str) -> Column | None:
    for field in schema:
        if name.startswith(f"{field.name}."):
            value = F.col(quote_column(field.name))
            found = _value_within(value, field.dataType, name[len(field.name) + 1 :])
            if found is not None:
                return found
    return None


def _value_within(value: Column, kind: T.DataType, path: str) -> Column | None:
    """Return what a path leads to: names of fields with dots between them, or the key of a map."""
    if isinstance(kind, T.MapType) and isinstance(kind.keyType, T.StringType):
        return F.try_element_at(value, F.lit(path))
    for field in kind if isinstance(kind, T.StructType) else ():
        inner = value.getField(field.name)
        if path == field.name:
            return inner
        if path.startswith(f"{field.name}."):
            found = _value_within(inner, field.dataType, path[len(field.name) + 1 :])
            if found is not None:
                return found
    return None


def row_text(rows: DataFrame) -> Column:
    """Return each row as JSON, or as the text that it was read from."""
    if isinstance(rows.schema[RAW].dataType, T.StructType):
        return F.coalesce(CORRUPT, F.to_json(RAW, JSON_OPTIONS))
    return F.col(RAW)


def with_row_text(rows: DataFrame, where: Column | None = None) -> DataFrame:
    """Return rows with `RAW` as text; null but where a condition is true, if there is one."""
    text = row_text(rows)
    return rows.withColumn(RAW, text if where is None else F.when(where, text))


def united(tables: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of tables that may have different columns in `RAW`."""
    if len(tables) == 1:
        return tables[0]
    return reduce(DataFrame.unionByName, map(with_row_text, tables))


def file_name() -> Column:
    """Return the name of a row's file, as the column `SOURCE`."""
    # Spark encodes the name for a URL, except for "+", which `url_decode` would turn into a blank.
    return F.url_decode(F.replace("_metadata.file_name", F.lit("+"), F.lit("%2B"))).alias(SOURCE)


def file_position() -> Column:
    """Return where a row is in its file, as the column `POSITION`."""
    # Ids grow within a part of a file. Spark does not number the parts in the file's order.
    number = F.monotonically_increasing_id()
    parts = ("_metadata.file_path", "_metadata.file_block_start")
    return F.struct(*parts, number.alias("row")).alias(POSITION)
