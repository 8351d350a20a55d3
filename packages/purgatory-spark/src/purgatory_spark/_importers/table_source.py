"""Sources of tables: files of this machine, and what a session's data sources read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._spark.csv_files import CSV_OPTIONS, csv_header
from purgatory_spark._spark.csv_reader import read_csv_rows
from purgatory_spark._spark.damage import innermost_cause
from purgatory_spark._spark.file_columns import file_name, file_position, with_nested
from purgatory_spark._spark.files import (
    CORRUPT,
    PARQUET_SUFFIX,
    POSITION,
    RAW,
    SOURCE,
    SUFFIXES,
    URI,
    file_format,
    quote_column,
    require_columns,
    spark_read_path,
    trace_files,
)
from purgatory_spark._spark.parquet_files import parquet_schema, read_parquet_rows
from purgatory_spark._spark.schemas import text_schema

#: The formats that can be named before a colon; `table` is a table of the session's catalog.
SOURCE_FORMATS = ("csv", "json", "parquet", "orc", "avro", "delta", "iceberg", "table")

# PySpark converts the errors that it knows; a class that is missing is none of them.
_SPARK_ERRORS = (PySparkException, Py4JJavaError)
_MISSING_SOURCE = (
    "DATA_SOURCE_NOT_FOUND",
    "Failed to find data source",
    "ClassNotFoundException",
    "NoClassDefFoundError",
)


@dataclass(frozen=True)
class TableSource:
    """Where a table is: one of `SOURCE_FORMATS`, and a path, a URI, or a name of the catalog."""

    format: str
    location: str

    @classmethod
    def parse(cls, text: str | Path) -> TableSource:
        """Parse `FORMAT:NAME_OR_PATH`, or a path or URI whose format its suffix says.

        >>> TableSource.parse("table:db.calls")
        TableSource(format='table', location='db.calls')
        >>> TableSource.parse("s3a://bucket/calls.jsonl.gz").format
        'json'

        `text`: a path, a URI or a name. A folder has the format of the files in it.
        """
        kind, colon, location = str(text).partition(":")
        if colon and kind in SOURCE_FORMATS and isinstance(text, str):
            if not location:
                raise TraceFormatError(f"{text}: expected FORMAT:NAME_OR_PATH")
            source = cls(kind, location)
            if source.path is not None and not source.path.exists():
                raise TraceFormatError(f"{location}: no such file or folder")
            return source
        name = str(text)
        if isinstance(text, str) and URI.match(name):
            found = file_format(name.rstrip("/"))
            if found is None:
                raise TraceFormatError(
                    f"{name}: the format can't be told from the name; write FORMAT:{name} with one "
                    f"of {', '.join(SOURCE_FORMATS)}"
                )
            return cls(found, name)
        found = file_format(trace_files(Path(text))[0].name)
        return cls(str(found), name)

    @classmethod
    def of_log(cls, location: str | Path) -> TableSource:
        """Return a text log: a file, a folder or a URI of any name."""
        source = cls("text", str(location))
        if source.path is not None and not source.path.exists():
            raise TraceFormatError(f"{location}: no such file or folder")
        return source

    @property
    def path(self) -> Path | None:
        """The local path; None for a URI or a name."""
        is_name = self.format == "table" or (
            self.format == "iceberg" and not self.location.startswith((".", "/"))
        )
        return None if is_name or URI.match(self.location) else Path(self.location)

    @property
    def name(self) -> str:
        """The last part of the location: the name of a file, a folder or a table."""
        if self.path is not None:
            return self.path.resolve().name
        return self.location.rstrip("/").rpartition("/")[2]

    def __str__(self) -> str:
        return self.location


def read_source(
    spark: SparkSession, source: TableSource, required: Iterable[str], *, where: str | None = None
) -> DataFrame:
    """Read the `required` columns of a source, with `SOURCE`, `RAW` and `CORRUPT`.

    All columns of CSV are text. A malformed row of CSV or JSON has its text in `CORRUPT`.

    `where`: a condition in SQL on any columns; other rows are left out, but for malformed ones.
    """
    required = list(dict.fromkeys(required))
    if where is None:
        return _read_columns(spark, source, required)
    given = _columns(spark, source)
    require_columns(source, given, required)
    rows = rows_where(_read_columns(spark, source, given), source, where)
    others = [name for name in (SOURCE, POSITION, RAW, CORRUPT) if name in rows.columns]
    return rows.select(*map(quote_column, required), *others)


def rows_where(rows: DataFrame, source: TableSource, where: str) -> DataFrame:
    """Return the rows that a condition in SQL is true for, and the malformed ones."""
    try:
        chosen = rows.where(F.col(CORRUPT).isNotNull() | F.expr(f"({where})"))
        chosen.schema  # noqa: B018 - Spark Connect resolves the condition here
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        raise TraceFormatError(
            f"{source}: the condition {where!r} can't be used ({first})"
        ) from error
    return chosen


def _columns(spark: SparkSession, source: TableSource) -> list[str]:
    files = _local_files(source)
    if files:
        is_parquet = files[0].name.endswith(PARQUET_SUFFIX)
        return list(parquet_schema(files[0]).names) if is_parquet else csv_header(files[0])
    try:
        return [name for name in _load(spark, source).columns if name != CORRUPT]
    except _SPARK_ERRORS as error:
        raise TraceFormatError(_failure(source, error)) from error


def _read_columns(spark: SparkSession, source: TableSource, required: list[str]) -> DataFrame:
    files = _local_files(source)
    if files:
        return read_rows(spark, files, required)
    partitions = _partition_files(source)
    if partitions:
        return read_rows(spark, partitions, required, base=source.path)
    try:
        table = _load(spark, source)
        names = table.columns
    except _SPARK_ERRORS as error:
        raise TraceFormatError(_failure(source, error)) from error
    corrupt = F.col(CORRUPT) if CORRUPT in names else F.lit(None).cast("string")
    given = [name for name in names if name != CORRUPT]
    table = with_nested(table, required)
    require_columns(source, table.columns, required)
    return table.select(
        *[F.col(quote_column(name)) for name in required],
        *(
            [file_name(), file_position()]
            if source.format in SUFFIXES
            else [F.lit(source.location).alias(SOURCE)]
        ),
        F.struct(*[F.col(quote_column(name)) for name in given]).alias(RAW),
        corrupt.alias(CORRUPT),
    )


def read_rows(
    spark: SparkSession, files: list[Path], required: Iterable[str], *, base: Path | None = None
) -> DataFrame:
    """Read the `required` columns of CSV or Parquet files, with `SOURCE`, `RAW` and `CORRUPT`.

    All columns of CSV are text. A row with too few or too many fields has its text in `CORRUPT`.

    `base`: the folder of a partitioned table, whose partitions are columns of Parquet files.
    """
    required = list(dict.fromkeys(required))
    if files[0].name.endswith(PARQUET_SUFFIX):
        return read_parquet_rows(spark, files, required, base)
    return read_csv_rows(spark, files, required)


def _local_files(source: TableSource) -> list[Path]:
    """Return the files of a source that `read_rows` reads: CSV and Parquet of this machine."""
    path = source.path
    if path is None or source.format not in ("csv", "parquet"):
        return []
    if path.is_file():
        is_plain = source.format == "csv" or path.name.endswith(PARQUET_SUFFIX)
        return [path] if is_plain else []
    # The files of partitions are in folders of their own, which Spark finds.
    suffixes = SUFFIXES[source.format]
    has_files = any(entry.is_file() and entry.name.endswith(suffixes) for entry in path.iterdir())
    return trace_files(path, (source.format,)) if has_files else []


def _partition_files(source: TableSource) -> list[Path]:
    """Return the Parquet files of a partitioned table on this machine, in folders `NAME=VALUE`."""
    path = source.path
    if path is None or source.format != "parquet" or not path.is_dir():
        return []
    inner = [(file, file.relative_to(path).parts) for file in path.rglob(f"*{PARQUET_SUFFIX}")]
    return sorted(
        file
        for file, (*folders, name) in inner
        if not name.startswith((".", "_")) and all("=" in folder for folder in folders)
    )


def _load(spark: SparkSession, source: TableSource) -> DataFrame:
    if source.format == "table":
        return spark.read.table(source.location)
    location = source.location if source.path is None else spark_read_path(source.path)
    if source.format == "json":
        return load_json(spark, source)
    if source.format == "csv":
        reader = spark.read.options(**CSV_OPTIONS)
        return reader.schema(text_schema(*reader.csv(location).columns, CORRUPT)).csv(location)
    if source.format in SUFFIXES:
        return spark.read.format(source.format).load(location)
    # Table formats know no patterns, so nothing is to be escaped.
    plain = source.location if source.path is None else str(source.path.resolve())
    return spark.read.format(source.format).load(plain)


def load_json(spark: SparkSession, source: TableSource, *, schema: str | None = None) -> DataFrame:
    """Read files with a JSON object a line; the text of another line is in the column `CORRUPT`."""
    if source.format != "json":
        raise TraceFormatError(f"{source}: expected JSON, not {source.format}")
    location = source.location if source.path is None else spark_read_path(source.path)
    reader = spark.read.option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")
    try:
        if schema is not None:
            return reader.schema(schema).json(location)
        inferred = reader.json(location).schema
    except _SPARK_ERRORS as error:
        raise TraceFormatError(_failure(source, error)) from error
    # The column is found only if a line is malformed.
    if CORRUPT not in inferred.names:
        inferred = T.StructType([*inferred, T.StructField(CORRUPT, T.StringType())])
    return reader.schema(inferred).json(location)


def _failure(source: TableSource, error: Exception) -> str:
    text = str(error)
    if any(part in text for part in _MISSING_SOURCE):
        return (
            f"{source}: this session has no data source {source.format!r}; add its package, for "
            "example with spark.jars.packages in spark-defaults.conf"
        )
    reason = innermost_cause(text) or text.strip().splitlines()[0]
    return f"{source}: can't be read as {source.format} ({reason})"
