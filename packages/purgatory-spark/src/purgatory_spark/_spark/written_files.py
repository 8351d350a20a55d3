"""Write tables of Spark in Parquet by Python workers, which takes a fraction of the time of rows.

A task writes a file of its own beside the table's files. The driver moves those of tasks whose
results it got, and drops what attempts that failed have left.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._spark.files import PARQUET_SUFFIX
from purgatory_spark._spark.schemas import utc_schema
from purgatory_spark._spark.spark_tables import SPARK_SCHEMA

#: The key of the number of bytes of a file's text, in its footer.
TEXT_BYTES = b"request_purgatory.text_bytes"

_ATTEMPTS = "_attempts"
#: Rows are written when there are as many.
_ROW_GROUP = 2**19


class TableFile:
    """A file of a table that one task writes. There is none without rows."""

    def __init__(self, folder: str, schema: T.StructType) -> None:
        self.name = f"part-{uuid4()}{PARQUET_SUFFIX}"
        self.rows = 0
        self._text_bytes = 0
        self._path = os.path.join(folder, _ATTEMPTS, self.name)
        self._schema = schema
        self._waiting: list[pa.Table] = []
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Write rows with microseconds for times. Text may be dictionaries, always of a column."""
        kinds = utc_schema(self._schema)
        columns = [
            column.cast(field.type) if pa.types.is_timestamp(field.type) else column
            for field, column in zip(kinds, rows.select(kinds.names).columns, strict=True)
        ]
        self._waiting.append(pa.table(dict(zip(kinds.names, columns, strict=True))))
        self.rows += rows.num_rows
        self._text_bytes += sum(_text_bytes(column) for column in columns)
        if sum(table.num_rows for table in self._waiting) >= _ROW_GROUP:
            self._flush()

    def close(self) -> None:
        if self._waiting:
            self._flush()
        if self._writer is not None:
            self._writer.add_key_value_metadata({TEXT_BYTES: str(self._text_bytes)})
            self._writer.close()

    def _flush(self) -> None:
        rows = pa.concat_tables(self._waiting)
        self._waiting = []
        if self._writer is None:
            # Readers are to know the dictionaries as text.
            self._writer = pq.ParquetWriter(self._path, rows.schema, store_schema=False)
            # Spark knows its own files by this.
            self._writer.add_key_value_metadata({SPARK_SCHEMA: self._schema.json()})
        self._writer.write_table(rows)


def _text_bytes(column: pa.ChunkedArray) -> int:
    """Return the number of bytes of a column's text; none if it has no text."""
    kind = column.type
    if pa.types.is_list(kind):
        return sum(_text_bytes(pa.chunked_array([chunk.flatten()])) for chunk in column.chunks)
    if pa.types.is_dictionary(kind):
        lengths = [
            pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks
        ]
    elif pa.types.is_string(kind):
        lengths = [pc.binary_length(chunk) for chunk in column.chunks]
    else:
        return 0
    return sum(pc.sum(chunk).as_py() or 0 for chunk in lengths)


def make_table_folder(folder: Path) -> None:
    (folder / _ATTEMPTS).mkdir(parents=True)


def keep_files(folder: Path, names: Collection[str], schema: T.StructType) -> None:
    """Move the named files to their table; without any, it gets one without rows."""
    if not names:
        empty = TableFile(str(folder), schema)
        empty.write(utc_schema(schema).empty_table())
        empty.close()
        names = [empty.name]
    for name in names:
        (folder / _ATTEMPTS / name).rename(folder / name)
    # A task that still runs may write a file; nobody reads it.
    shutil.rmtree(folder / _ATTEMPTS, ignore_errors=True)


def write_no_rows(folder: Path, schema: T.StructType) -> None:
    make_table_folder(folder)
    keep_files(folder, [], schema)
