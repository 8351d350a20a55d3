"""Read Parquet files of any writer: their schemas, and their types as Spark has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._spark.file_columns import file_name, file_position, united, with_nested
from purgatory_spark._spark.files import (
    CORRUPT,
    PARQUET_SUFFIX,
    POSITION,
    RAW,
    SOURCE,
    quote_column,
    require_columns,
    spark_read_path,
    spark_write_path,
)


def parquet_schema(file: Path) -> pa.Schema:
    try:
        return arrow_schema(pq.read_metadata(file).schema)
    except (OSError, ValueError) as error:
        raise TraceFormatError(f"{file}: can't be read as Parquet ({error})") from error


def arrow_schema(stored: pq.ParquetSchema) -> pa.Schema:
    schema = stored.to_arrow_schema()
    # Arrow takes INT96 for nanoseconds. Spark writes it by default, and reads it as microseconds.
    columns = [stored.column(number) for number in range(len(stored))]
    for name in [column.path for column in columns if column.physical_type == "INT96"]:
        position = schema.get_field_index(name)
        if position >= 0:
            schema = schema.set(position, pa.field(name, pa.timestamp("us", tz="UTC")))
    return schema


@lru_cache(maxsize=4096)
def require_parquet_columns(location: str, required: tuple[str, ...]) -> None:
    """Check the columns of a Parquet file; names match in any case, as in Spark."""
    file = Path(url2pathname(urlsplit(location).path))
    given = parquet_schema(file).names
    folded = {name.lower() for name in given}
    require_columns(file, given, [name for name in required if name.lower() not in folded])


def read_parquet(spark: SparkSession, *paths: Path, base: Path | None = None) -> DataFrame:
    """Read Parquet files of any writer: of one schema, or in one folder.

    Spark has no timestamps of nanoseconds, as pandas and Arrow write them. They are read as
    bigints, in every session.

    `base`: the folder of a partitioned table.
    """
    first = paths[0]
    file = min(first.rglob(f"*{PARQUET_SUFFIX}")) if first.is_dir() else first
    schema = parquet_schema(file)
    readable = pa.schema([field.with_type(_readable_type(field.type)) for field in schema])
    reader = spark.read if base is None else spark.read.option("basePath", spark_write_path(base))
    if any(_has_nanoseconds(field.type) for field in schema):
        reader = reader.schema(from_arrow_schema(readable, prefer_timestamp_ntz=True))
    return reader.parquet(*[spark_read_path(path) for path in paths])


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    return any(_has_nanoseconds(kind.field(number).type) for number in range(kind.num_fields))


def _readable_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark reads a type of Parquet as."""
    kind = storage_type(kind)
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.int64()
    if pa.types.is_unsigned_integer(kind):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}
        return wider.get(kind.bit_width, pa.decimal128(20, 0))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_readable_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_readable_type(field.type)) for field in kind])
    return kind


def read_parquet_rows(
    spark: SparkSession, files: list[Path], required: list[str], base: Path | None
) -> DataFrame:
    """Read the `required` columns of Parquet files, as `table_source.read_rows` does."""
    # Files of one folder may differ: pandas writes the integers and times that it has.
    by_schema: dict[pa.Schema, list[Path]] = defaultdict(list)
    found: dict[str, dict[pa.DataType, Path]] = defaultdict(dict)
    for file in files:
        schema = parquet_schema(file).remove_metadata()
        partitions = file.relative_to(base).parts[:-1] if base else ()
        names = [*schema.names, *[part.partition("=")[0] for part in partitions]]
        outer = [name for name in required if name.partition(".")[0] not in schema.names]
        require_columns(file, names, outer)
        by_schema[schema].append(file)
        for field in schema:
            found[field.name].setdefault(storage_type(field.type), file)
    common = {name: _common_type(name, found[name]) for name in required if found[name]}
    tables = []
    for schema, group in by_schema.items():
        rows = read_parquet(spark, *group, base=base)
        rows = rows.withColumn(RAW, F.struct("*")).select("*", file_name(), file_position())
        rows = with_nested(rows, required)
        require_columns(group[0], rows.columns, required)
        columns = {name: F.col(quote_column(name)) for name in rows.columns}
        for name, kind in common.items():
            column = without_nanoseconds(columns[name], storage_type(schema.field(name).type))
            columns[name] = column.cast(kind) if kind else column
        wanted = [columns[name].alias(name) for name in required]
        no_text = F.lit(None).cast("string").alias(CORRUPT)
        tables.append(rows.select(*wanted, SOURCE, POSITION, RAW, no_text))
    return united(tables)


def _common_type(name: str, found: Mapping[pa.DataType, Path]) -> str | None:
    """Return the SQL type that holds all types of a column; None if it needs no cast."""
    first, *others = found
    family = _family(first)
    for kind in others:
        if _family(kind) != family:
            raise TraceFormatError(
                f"{found[kind]}: column {name} is {kind}, but {first} in {found[first]}"
            )
    return family if others and family in ("bigint", "double") else None


def _family(kind: pa.DataType) -> str:
    """Return the same for types that one type holds: that one, where a cast is needed."""
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp without zone"
    if pa.types.is_signed_integer(kind):
        return "bigint"
    return "double" if pa.types.is_floating(kind) else str(kind)


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in Parquet, which has neither Arrow's dictionaries nor its large strings."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def without_nanoseconds(column: Column, kind: pa.DataType) -> Column:
    """Return nanoseconds, read as integers, as timestamps rounded down; others unchanged."""
    if not (pa.types.is_timestamp(kind) and kind.unit == "ns"):
        return column
    return F.timestamp_micros(
        F.floor(column.cast("decimal(20,0)") / F.lit(1000).cast("decimal(4,0)")).cast("bigint")
    )
