"""Folders of CSV and Parquet files of any columns as inputs of a stream.

Spark's streaming readers are given the columns at the start. They are found in the first file of
the folder, and files that differ end the stream with an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamReader

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._spark.files import (
    CORRUPT,
    CSV_SUFFIXES,
    JSON_OPTIONS,
    PARQUET_SUFFIX,
    RAW,
    SOURCE,
    csv_header,
    parquet_schema,
    quote_column,
    read_parquet,
    require_columns,
    spark_read_path,
    without_nanoseconds,
)
from purgatory_spark._stream.job import FILE_COLUMNS


def read_csv_columns(reader: DataStreamReader, folder: Path, columns: Iterable[str]) -> DataFrame:
    """Return columns of CSV files with a header, all as text, and those that describe a row."""
    file = _first_file(folder, CSV_SUFFIXES)
    names = csv_header(file)
    require_columns(file, names, columns)
    folded = [name.lower() for name in names]
    for name in names:
        if folded.count(name.lower()) > 1:
            raise TraceFormatError(f"{file}: several columns are named {name!r}, but for the case")
    rows = (
        reader.schema(
            T.StructType([T.StructField(name, T.StringType()) for name in (*names, CORRUPT)])
        )
        .option("header", True)
        # Otherwise Spark gives the first file's names to columns of any other order.
        .option("enforceSchema", False)
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", CORRUPT)
        .option("escape", '"')  # RFC 4180 doubles quotes
        # With column pruning the reader accepts a malformed row.
        .option("columnPruning", False)
        .csv(spark_read_path(folder))
    )
    return rows.select(
        *[quote_column(name) for name in columns],
        F.coalesce(CORRUPT, _as_json(names)).alias(RAW),
        F.when(F.col(CORRUPT).isNotNull(), F.lit("malformed row")).alias(CORRUPT),
    )


def read_parquet_columns(
    spark: SparkSession, reader: DataStreamReader, folder: Path, columns: Iterable[str]
) -> DataFrame:
    """Return columns of Parquet files, in the types of the first, and those that describe a row."""
    columns = list(columns)
    file = _first_file(folder, (PARQUET_SUFFIX,))
    stored = parquet_schema(file)
    require_columns(file, stored.names, columns)
    schema = read_parquet(spark, file).schema
    rows = reader.schema(schema).parquet(spark_read_path(folder))
    # Spark returns nulls for a column that a file lacks.
    has_null = reduce(Column.__or__, [F.col(quote_column(name)).isNull() for name in columns])
    path = F.when(has_null, F.col("_metadata.file_path"))
    return rows.select(
        *[
            without_nanoseconds(F.col(quote_column(name)), stored.field(name).type).alias(name)
            for name in columns
        ],
        _as_json(schema.names).alias(RAW),
        F.lit(None).cast("string").alias(CORRUPT),
        path.alias(SOURCE, metadata={FILE_COLUMNS: columns}),
    )


def _as_json(names: Iterable[str]) -> Column:
    return F.to_json(F.struct(*[F.col(quote_column(name)) for name in names]), JSON_OPTIONS)


def _first_file(folder: Path, suffixes: tuple[str, ...]) -> Path:
    files = (
        file
        for file in folder.rglob("*")
        if file.name.endswith(suffixes)
        and not file.name.startswith((".", "_"))
        and file.stat().st_size
    )
    first = min(files, default=None)
    if first is None:
        raise TraceFormatError(
            f"{folder}: no file whose name ends with {', '.join(suffixes)}; a stream with a "
            "mapping finds the columns in a first file, which may have no rows"
        )
    return first
