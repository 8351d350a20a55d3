"""Rows of a stream's Parquet files, read in a Python worker.

A value takes some 0.1 us on its way from the JVM to Python. So Spark finds the files of a batch,
and gives their paths to the workers, which read them by Arrow.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamReader

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._rows.packing import ENCODED
from purgatory_spark._rows.schema import ARROW_SCHEMAS
from purgatory_spark._spark.files import spark_read_path
from purgatory_spark._spark.parquet_batches import parquet_batches
from purgatory_spark._spark.parquet_files import arrow_schema

#: The only column of a DataFrame of files: the path of one, as Hadoop writes it, for its rows.
FILE = "_purgatory_file"
#: A key of the metadata of columns that describe a row's source: the folder that Spark reads, whose
#: paths tasks check.
FOLDER = "purgatory.folder"
#: What Spark's reader of whole files returns. It reads the contents only if they are selected.
_BINARY_FILES = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"


def stream_files(reader: DataStreamReader, folder: Path) -> DataFrame:
    """Return the files of a folder as a streaming DataFrame of `FILE`, without empty ones.

    Its part of a checkpoint is that of Spark's Parquet reader: a list of files, by batch.
    """
    files = reader.schema(_BINARY_FILES).format("binaryFile").load(spark_read_path(folder))
    return files.where("length > 0").select(
        F.col("path").alias(FILE, metadata={FOLDER: os.path.abspath(folder)})
    )


def rows_of_files(paths: Iterable[str], kind: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files in the columns of `ARROW_SCHEMAS`.

    A file without one of them, or with one of a type that Spark does not read as the schema's,
    raises TraceFormatError.
    """
    schema = ARROW_SCHEMAS[kind]
    for path in paths:
        file = path.removeprefix("file:")
        # With its row groups chosen, a file is read by one thread: a task has one core.
        yield from parquet_batches(
            file, file, schema, ENCODED[kind], partial(_checked_row_groups, file, schema)
        )


def _checked_row_groups(file: str, schema: pa.Schema, metadata: pq.FileMetaData) -> list[int]:
    given = arrow_schema(metadata.schema)
    for field in schema:
        stored = given.field(field.name).type
        if not _is_readable(stored, field):
            raise TraceFormatError(
                f"{file}: column {field.name} is {stored}, not {_expected(field)}"
            )
    return list(range(metadata.num_row_groups))


def _is_readable(stored: pa.DataType, field: pa.Field) -> bool:
    """Return whether Spark reads a type of Parquet as the schema's, without loss."""
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    if _is_time(field):
        readable = pa.types.is_timestamp(stored) and stored.unit != "ns"
    elif pa.types.is_list(field.type):
        is_list = pa.types.is_list(stored) or pa.types.is_large_list(stored)
        readable = is_list and _is_text(stored.value_type)
    elif pa.types.is_string(field.type):
        readable = _is_text(stored)
    elif pa.types.is_integer(field.type):
        readable = pa.types.is_signed_integer(stored) and stored.bit_width <= field.type.bit_width
    else:
        readable = pa.types.is_floating(stored)
    return bool(readable)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_time(field: pa.Field) -> bool:
    # In Arrow's schema, times are integers.
    return str(field.name).endswith("_at")


def _expected(field: pa.Field) -> str:
    return "a timestamp of milliseconds or microseconds" if _is_time(field) else str(field.type)
