"""Reads CSV and Parquet files as raw rows that keep where they came from."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.pipeline.traces.importers.imported import (
    CORRUPT,
    RAW,
    SOURCE,
    TraceFormatError,
    quoted,
)

CSV_ENDINGS = (".csv", ".csv.gz", ".csv.bz2")
PARQUET_ENDING = ".parquet"
#: Under this key, the footers of Spark's Parquet files have the table's schema as JSON.
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_OPENERS: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


def trace_files(path: Path) -> list[Path]:
    """The CSV files of a folder, or else its Parquet files, in order of name; or the one file that `path` is.

    Raises:
        TraceFormatError: there is no such path, or no such file in it.
    """
    if not path.exists():
        raise TraceFormatError(f"{path}: no such file or folder")
    if path.is_file():
        if not path.name.endswith((*CSV_ENDINGS, PARQUET_ENDING)):
            raise TraceFormatError(
                f"{path}: neither CSV ({', '.join(CSV_ENDINGS)}) nor Parquet ({PARQUET_ENDING})"
            )
        files = [path]
        if path.name.startswith((".", "_")):
            raise TraceFormatError(
                f"{path}: Spark takes files whose names begin with '.' or '_' for hidden ones; rename it"
            )
    else:
        visible = sorted(
            file
            for file in path.iterdir()
            if file.is_file() and not file.name.startswith((".", "_"))
        )
        files = [file for file in visible if file.name.endswith(CSV_ENDINGS)]
        files = files or [file for file in visible if file.name.endswith(PARQUET_ENDING)]
    for file in files:
        if ":" in file.name:
            raise TraceFormatError(
                f"{file}: Hadoop, by which Spark reads files, takes none with ':' in its name; rename it"
            )
    if not files:
        raise TraceFormatError(
            f"{path}: no CSV ({', '.join(CSV_ENDINGS)}) and no Parquet ({PARQUET_ENDING}) file in it"
        )
    return files


def header(file: Path) -> list[str]:
    """The column names of a CSV file: its first line that is not blank.

    Raises:
        TraceFormatError: the file is empty, or not text.
    """
    try:
        # As text that may begin with a byte order mark; newlines are the csv module's business.
        # What is no text further on is a matter of the rows; Spark reads it with the same
        # replacement characters.
        with _OPENERS.get(file.suffix, open)(
            file, "rt", encoding="utf-8-sig", errors="replace", newline=""
        ) as text:
            names = next(
                (row for row in csv.reader(text) if "".join(row).strip() or len(row) > 1), None
            )
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise TraceFormatError(f"{file}: can't be read as CSV text ({error})") from error
    if not names:
        raise TraceFormatError(
            f"{file}: the file is empty; a line with the columns' names was expected"
        )
    if any("\ufffd" in name or "\0" in name for name in names):
        raise TraceFormatError(f"{file}: can't be read as CSV text (its first line is not UTF-8)")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise TraceFormatError(
            f"{file}: column {repeated[0]!r} stands in the first line more than once"
        )
    return names


def require_columns(file: Path, given: Iterable[str], required: Iterable[str]) -> None:
    """TraceFormatError, naming the difference, unless all `required` columns are given."""
    given = list(given)
    missing = [name for name in required if name not in given]
    if missing:
        raise TraceFormatError(f"{file}: no column {', '.join(missing)}; it has {', '.join(given)}")


def parquet_schema(file: Path) -> pa.Schema:
    """The columns of a Parquet file and their types; TraceFormatError if it is none."""
    try:
        return pq.read_schema(file)
    except (OSError, ValueError) as error:
        raise TraceFormatError(f"{file}: can't be read as Parquet ({error})") from error


@lru_cache(maxsize=4096)
def require_parquet_columns(location: str, required: tuple[str, ...]) -> None:
    """TraceFormatError, naming the difference, unless a Parquet file has all columns.

    Args:
        location: the file as Spark gives it in `_metadata.file_path`.
    """
    file = Path(url2pathname(urlsplit(location).path))
    given = parquet_schema(file).names
    # Spark finds a column by its name in any case.
    folded = {name.lower() for name in given}
    require_columns(file, given, [name for name in required if name.lower() not in folded])


def spark_path(path: Path) -> str:
    """A path as Spark's readers take it: a file of this machine whose name is meant as it stands.

    To a reader `*`, `[` and `{` are patterns, and what comes before a colon in a relative path is a
    protocol.
    """
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", written_path(path))


def written_path(path: Path) -> str:
    """A path as Spark's writers take it.

    As it stands, and of the mounted files even where a cluster has another default.
    """
    return f"file://{os.path.abspath(path)}"


def read_written(spark: SparkSession, folder: Path) -> DataFrame:
    """Read a table that Spark wrote in Parquet.

    Asked for a folder alone, Spark starts a job to learn the schema out of a footer. The driver
    sees the folder, too, and reads the footer itself; where that tells no schema, as in files of
    others, Spark finds it out.

    Args:
        spark: The session.
        folder: The table's files.

    Returns:
        The table.
    """
    reader = spark.read
    file = min(folder.glob(f"*{PARQUET_ENDING}"), default=None)
    try:
        written = (pq.read_metadata(file).metadata or {}).get(_SPARK_SCHEMA) if file else None
    except (OSError, ValueError):
        written = None  # Spark says what is wrong with it.
    if written:
        reader = reader.schema(T.StructType.fromJson(json.loads(written)))
    return reader.parquet(spark_path(folder))


def read_rows(spark: SparkSession, files: list[Path], required: Iterable[str]) -> DataFrame:
    """The rows of the files: the `required` columns, `SOURCE` (the file's name), `RAW` (the row as JSON) and `CORRUPT`.

    All columns of CSV are text; a row with too few or too many fields has its line in `CORRUPT`,
    which is null otherwise.

    Raises:
        TraceFormatError: a file lacks one of the `required` columns, has one of another type than
            the others, or can't be read.
    """
    required = list(dict.fromkeys(required))
    if files[0].name.endswith(PARQUET_ENDING):
        return _read_parquet(spark, files, required)
    # Files of one folder may have their columns in different orders; Spark takes those of the first
    # for all.
    by_header: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for file in files:
        names = header(file)
        require_columns(file, names, required)
        by_header[tuple(names)].append(file)
    return reduce(
        DataFrame.unionByName,
        [_read_csv(spark, group, names, required) for names, group in by_header.items()],
    )


def _read_csv(
    spark: SparkSession, files: list[Path], names: tuple[str, ...], required: list[str]
) -> DataFrame:
    # Read under plain names: the file's own may be such that Spark can't tell them apart, as by
    # case, or can't parse them.
    plain = [f"c{number}" for number in range(len(names))]
    rows = (
        spark.read.schema(
            T.StructType([T.StructField(name, T.StringType()) for name in (*plain, CORRUPT)])
        )
        .option("header", True)
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", CORRUPT)
        .option("escape", '"')  # as RFC 4180 doubles quotes
        .csv([spark_path(file) for file in files])
    )
    whole = F.to_json(
        F.struct(*[F.col(ours).alias(theirs) for ours, theirs in zip(plain, names, strict=True)])
    )
    wanted = [F.col(plain[names.index(name)]).alias(name) for name in required]
    return rows.select(*wanted, _source(), F.coalesce(CORRUPT, whole).alias(RAW), CORRUPT)


def _read_parquet(spark: SparkSession, files: list[Path], required: list[str]) -> DataFrame:
    first: dict[str, tuple[Path, pa.DataType]] = {}
    for file in files:
        schema = parquet_schema(file)
        require_columns(file, schema.names, required)
        for name in required:
            kind = _stored(schema.field(name).type)
            other, known = first.setdefault(name, (file, kind))
            if kind != known:
                raise TraceFormatError(f"{file}: column {name} is {kind}, but {known} in {other}")
    rows = spark.read.parquet(*[spark_path(file) for file in files])
    whole = F.to_json(F.struct(*[F.col(quoted(name)) for name in rows.columns]))
    wanted = [_microseconds(F.col(quoted(name)), first[name][1]).alias(name) for name in required]
    return rows.select(
        *wanted, _source(), whole.alias(RAW), F.lit(None).cast("string").alias(CORRUPT)
    )


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type without what only Arrow tells apart.

    Dictionaries, and strings by the width of their offsets.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def _microseconds(column: Column, kind: pa.DataType) -> Column:
    """Timestamps of nanoseconds, which Spark does not know and reads as whole numbers, as timestamps, rounded down."""
    if not (pa.types.is_timestamp(kind) and kind.unit == "ns"):
        return column
    return F.timestamp_micros(
        F.floor(column.cast("decimal(20,0)") / F.lit(1000).cast("decimal(4,0)")).cast("bigint")
    )


def _source() -> Column:
    # Spark gives the name as it stands in a URL, but with + for itself.
    return F.url_decode(F.replace("_metadata.file_name", F.lit("+"), F.lit("%2B"))).alias(SOURCE)


def malformed() -> tuple[str, Column]:
    """The check for rows that do not have as many fields as their file has columns."""
    return "malformed row", F.col(CORRUPT).isNotNull()
