"""Reads CSV and Parquet files as raw rows that keep where they came from."""

from __future__ import annotations

import bz2
import csv
import gzip
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.pipeline.importers.imported import RAW, SOURCE, TraceFormatError

CSV_ENDINGS = (".csv", ".csv.gz", ".csv.bz2")
PARQUET_ENDING = ".parquet"
_CORRUPT = "_corrupt"
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
            raise TraceFormatError(f"{path}: neither CSV ({', '.join(CSV_ENDINGS)}) nor Parquet ({PARQUET_ENDING})")
        return [path]
    visible = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
    files = [file for file in visible if file.name.endswith(CSV_ENDINGS)]
    files = files or [file for file in visible if file.name.endswith(PARQUET_ENDING)]
    if not files:
        raise TraceFormatError(f"{path}: no CSV ({', '.join(CSV_ENDINGS)}) and no Parquet ({PARQUET_ENDING}) file in it")
    return files


def header(file: Path) -> list[str]:
    """The column names of a CSV file.

    Raises:
        TraceFormatError: the file is empty, or not text.
    """
    try:
        # As text that may begin with a byte order mark; newlines are the csv module's business.
        with _OPENERS.get(file.suffix, open)(file, "rt", encoding="utf-8-sig", newline="") as text:
            names = next(csv.reader(text), None)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise TraceFormatError(f"{file}: can't be read as CSV text ({error})") from error
    if not names:
        raise TraceFormatError(f"{file}: the file is empty; a line with the columns' names was expected")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise TraceFormatError(f"{file}: column {repeated[0]!r} stands in the first line more than once")
    return names


def require_columns(file: Path, given: Iterable[str], required: Iterable[str]) -> None:
    """TraceFormatError, naming the difference, unless all `required` columns are given."""
    given = list(given)
    missing = [name for name in required if name not in given]
    if missing:
        raise TraceFormatError(f"{file}: no column {', '.join(missing)}; it has {', '.join(given)}")


def read_rows(spark: SparkSession, files: list[Path], required: Iterable[str]) -> DataFrame:
    """The rows of the files, with `SOURCE` (the file's name), `RAW` (the row as JSON) and `_corrupt`.

    All columns of CSV are text; a row with too few or too many fields has its line in `_corrupt`, which is null otherwise.

    Raises:
        TraceFormatError: a file lacks one of the `required` columns, or can't be read.
    """
    required = list(required)
    if files[0].name.endswith(PARQUET_ENDING):
        rows = spark.read.parquet(*map(str, files)).withColumn(_CORRUPT, F.lit(None).cast("string"))
        require_columns(files[0], rows.columns, required)
        return _with_source(rows)
    # Files of one folder may have their columns in different orders; Spark takes those of the first for all.
    by_header: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for file in files:
        names = header(file)
        require_columns(file, names, required)
        by_header[tuple(names)].append(file)
    tables = []
    for names_, group in by_header.items():
        schema = T.StructType([T.StructField(name, T.StringType()) for name in (*names_, _CORRUPT)])
        rows = (
            spark.read.schema(schema)
            .option("header", True)
            .option("mode", "PERMISSIVE")
            .option("columnNameOfCorruptRecord", _CORRUPT)
            .option("escape", '"')  # as RFC 4180 doubles quotes
            .csv([str(file) for file in group])
        )
        tables.append(_with_source(rows))
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tables)


def _with_source(rows: DataFrame) -> DataFrame:
    data = [name for name in rows.columns if name != _CORRUPT]
    return rows.withColumn(SOURCE, F.col("_metadata.file_name")).withColumn(
        RAW, F.coalesce(F.col(_CORRUPT), F.to_json(F.struct(*[f"`{name}`" for name in data])))
    )


def malformed() -> tuple[str, Column]:
    """The check for rows that do not have as many fields as their file has columns."""
    return "malformed row", F.col(_CORRUPT).isNotNull()
