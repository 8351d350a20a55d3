"""Folders of files as a stream's inputs and output.

Spark's streaming readers are given the columns at the start. Those of CSV and Parquet files of any
columns are found in the first file of the folder, and files that differ end the stream.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamReader

from purgatory_spark._errors import TraceFormatError, require_at_least, require_one_of
from purgatory_spark._rows.column_checks import MALFORMED
from purgatory_spark._rows.schema import file_columns, require
from purgatory_spark._spark.csv_files import CSV_OPTIONS, csv_header
from purgatory_spark._spark.files import (
    CORRUPT,
    CSV_SUFFIXES,
    JSON_OPTIONS,
    PARQUET_SUFFIX,
    RAW,
    SOURCE,
    quote_column,
    require_columns,
    require_no_patterns_in,
    spark_read_path,
    spark_write_path,
)
from purgatory_spark._spark.parquet_files import parquet_schema, read_parquet, without_nanoseconds
from purgatory_spark._spark.schemas import text_schema
from purgatory_spark._spark.spark_tables import PARQUET_OPTIONS
from purgatory_spark._stream.endpoints.json_rows import read_json_fields, read_json_rows
from purgatory_spark._stream.job import FILE_COLUMNS
from purgatory_spark._stream.parquet_rows import FOLDER, stream_files

OUTPUT_FORMATS = ("parquet", "json")
#: Tables of the schema have arrays, which CSV has not: it needs a mapping.
FORMATS = (*OUTPUT_FORMATS, "csv")
#: Options of the writer of outcomes. In a batch's file, values of these columns hardly repeat.
#: Parquet would make dictionaries of them and drop them, which took a tenth of the JVM's time.
OUTCOME_OPTIONS = PARQUET_OPTIONS | {
    f"parquet.enable.dictionary#{name}": "false"
    for name in ("request_id", "arrived_at", "ended_at")
}


@dataclass(frozen=True)
class FolderSource:
    """A folder to which files are added: of Parquet, JSON with a row a line, or CSV with a header.

    Each file is read once and completely, so it must be written elsewhere and moved into the
    folder.
    """

    folder: Path
    format: str = "parquet"
    files_per_batch: int | None = None
    unbounded = False

    def __post_init__(self) -> None:
        require_one_of(FORMATS, format=self.format)
        if self.files_per_batch is not None:
            require_at_least(1, files_per_batch=self.files_per_batch)

    def require_folder(self) -> None:
        if not self.folder.is_dir():
            raise TraceFormatError(
                f"{self.folder}: no such folder; create it before the stream starts"
            )
        require_no_patterns_in(self.folder)

    def identity(self, spark: SparkSession) -> str:  # noqa: ARG002 - the same in every session
        return _identity(self.folder, self.format)

    def read(self, spark: SparkSession, schema: T.StructType) -> DataFrame:
        reader = self._reader(spark)
        if self.format == "json":
            rows = read_json_rows(self._lines(reader), schema)
            return rows.withColumn(SOURCE, self._described(F.lit(None).cast("string")))
        if any(self.folder.rglob("*.parquet")):
            require(read_parquet(spark, self.folder), schema, str(self.folder))
        # Only Spark's reader takes columns from the names of folders.
        if not any(folder.is_dir() for folder in self.folder.rglob("*=*")):
            return stream_files(reader, self.folder)
        rows = reader.schema(schema).parquet(spark_read_path(self.folder))
        file = self._described(_file_to_check(file_columns(schema)))
        return rows.select(*schema.names, file)

    def read_columns(
        self, spark: SparkSession, columns: Iterable[str], lists: Collection[str]
    ) -> DataFrame:
        """Return columns of any names as a streaming DataFrame.

        Those of CSV and Parquet are the first file's; those of JSON are fields of the objects.
        """
        reader = self._reader(spark)
        if self.format == "json":
            rows = read_json_fields(self._lines(reader), columns, lists).drop("value")
        elif self.format == "csv":
            rows = _read_csv_columns(reader, self.folder, columns)
        else:
            columns = list(columns)
            rows = _read_parquet_columns(spark, reader, self.folder, columns)
            file = self._described(F.col(SOURCE), {FILE_COLUMNS: columns})
            return rows.withColumn(SOURCE, file)
        return rows.withColumn(SOURCE, self._described(F.lit(None).cast("string")))

    def _described(self, source: Column, metadata: dict[str, Any] | None = None) -> Column:
        """Return the column `SOURCE` with what tasks must know of the folder."""
        folder = os.path.abspath(self.folder)
        return source.alias(SOURCE, metadata={FOLDER: folder, **(metadata or {})})

    def _reader(self, spark: SparkSession) -> DataStreamReader:
        self.require_folder()
        # Fail on unreadable files even if spark-defaults.conf says to skip them.
        reader = spark.readStream.option("ignoreCorruptFiles", "false").option(
            "ignoreMissingFiles", "false"
        )
        if self.files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", self.files_per_batch)
        return reader

    def _lines(self, reader: DataStreamReader) -> DataFrame:
        """Return lines as text, so that a malformed one can be reported unchanged."""
        # A file may begin with a byte order mark.
        lines = reader.text(spark_read_path(self.folder)).select(
            F.ltrim("value", F.lit("\ufeff")).alias("value")
        )
        return lines.where(F.trim("value") != "")


@dataclass(frozen=True)
class FolderSink:
    """A folder with the subfolders `kind=outcomes` and `kind=late`, which have each row once."""

    folder: Path
    format: str = "parquet"

    def __post_init__(self) -> None:
        require_one_of(OUTPUT_FORMATS, format=self.format)

    @property
    def locations(self) -> tuple[str, str]:
        return f"{self.folder}/kind=outcomes", f"{self.folder}/kind=late"

    def identity(self, spark: SparkSession) -> str:  # noqa: ARG002 - the same in every session
        return _identity(self.folder, self.format)

    def write(self, results: DataFrame) -> Any:
        writer = (
            results.writeStream.format(self.format)
            .option("path", spark_write_path(self.folder.resolve()))
            .partitionBy("kind")
        )
        writer = writer.options(**(JSON_OPTIONS if self.format == "json" else OUTCOME_OPTIONS))
        return writer.outputMode("append")


def _identity(folder: Path, format_name: str) -> str:
    return f"{folder.resolve()} ({format_name})"


def _read_csv_columns(reader: DataStreamReader, folder: Path, columns: Iterable[str]) -> DataFrame:
    """Return columns of CSV files with a header, all as text, and those that describe a row."""
    file = _first_file(folder, CSV_SUFFIXES)
    names = csv_header(file)
    require_columns(file, names, columns)
    folded = [name.lower() for name in names]
    for name in names:
        if folded.count(name.lower()) > 1:
            raise TraceFormatError(f"{file}: several columns are named {name!r}, but for the case")
    rows = (
        reader.schema(text_schema(*names, CORRUPT))
        .options(**CSV_OPTIONS)
        # Otherwise Spark gives the first file's names to columns of any other order.
        .option("enforceSchema", False)
        .csv(spark_read_path(folder))
    )
    return rows.select(
        *[quote_column(name) for name in columns],
        F.coalesce(CORRUPT, _as_json(names)).alias(RAW),
        F.when(F.col(CORRUPT).isNotNull(), F.lit(MALFORMED)).alias(CORRUPT),
    )


def _read_parquet_columns(
    spark: SparkSession, reader: DataStreamReader, folder: Path, columns: list[str]
) -> DataFrame:
    """Return columns of Parquet files, in the types of the first, and those that describe a row."""
    file = _first_file(folder, (PARQUET_SUFFIX,))
    stored = parquet_schema(file)
    require_columns(file, stored.names, columns)
    schema = read_parquet(spark, file).schema
    rows = reader.schema(schema).parquet(spark_read_path(folder))
    return rows.select(
        *[
            without_nanoseconds(F.col(quote_column(name)), stored.field(name).type).alias(name)
            for name in columns
        ],
        _as_json(schema.names).alias(RAW),
        F.lit(None).cast("string").alias(CORRUPT),
        _file_to_check(columns).alias(SOURCE),
    )


def _file_to_check(columns: Iterable[str]) -> Column:
    """Return the file of a row with nulls, which Spark returns for a column that a file lacks."""
    has_null = reduce(Column.__or__, [F.col(quote_column(name)).isNull() for name in columns])
    return F.when(has_null, F.col("_metadata.file_path"))


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
