"""Find the Parquet files of a DataFrame whose columns are those of its files, as they are there.

Python workers read such files by themselves. Spark's plan says which they are, in classic sessions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._spark.files import CORRUPT
from purgatory_spark._spark.parquet_files import parquet_schema, storage_type
from purgatory_spark._spark.parquet_splits import TableFiles

#: The driver reads the footers of so many files. With more, Spark reads them.
_MOST_FILES = 1_000
_PACKAGE = "org.apache.spark.sql.execution.datasources"
#: Spark's nodes that give the rows of another one, with other columns.
_SAME_ROWS = ("Project", "SubqueryAlias")
#: With these, Spark gives other rows than the files have.
_LENIENT = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")


def scanned_files(table: DataFrame, columns: pa.Schema) -> TableFiles | None:
    """Return the files of a DataFrame, if they have exactly these columns, in all its rows.

    None if another part of Spark's plan changes rows or one of these columns, if Spark caches them,
    if the files are not on file systems of this machine, or if a type is not Spark's.
    """
    if getattr(table, "_jdf", None) is None:
        return None
    try:
        uris = _scanned_uris(table, columns.names)
    except (Py4JError, AttributeError, TypeError):
        # It is another Spark, with plans of its own.
        return None
    parts = [urlsplit(uri) for uri in uris]
    is_local = all(part.scheme == "file" and not part.netloc for part in parts)
    if not is_local or not 0 < len(parts) <= _MOST_FILES:
        return None
    files = [url2pathname(part.path) for part in parts]
    try:
        if all(_has_columns(parquet_schema(Path(file)), columns) for file in files):
            return TableFiles("/", {file: os.path.getsize(file) for file in sorted(files)})
    except (TraceFormatError, OSError):
        # Spark has the error.
        pass
    return None


def _scanned_uris(table: DataFrame, names: list[str]) -> list[str]:
    """Return the Parquet files that these columns are read from; none if they are computed."""
    if any(table.sparkSession.conf.get(name) == "true" for name in _LENIENT):
        return []
    plan: Any = table._jdf.queryExecution().withCachedData()  # noqa: SLF001 - there is no other
    given = _expressions(plan)
    while _name_of(plan) in _SAME_ROWS:
        plan = plan.child()
    if _name_of(plan) != "LogicalRelation":
        return []
    relation, read = plan.relation(), _expressions(plan)
    is_read = all(name in given and given[name] == read.get(name) for name in names)
    if not is_read or CORRUPT in read:
        return []
    if (
        relation.getClass().getName() != f"{_PACKAGE}.HadoopFsRelation"
        or relation.fileFormat().getClass().getName() != f"{_PACKAGE}.parquet.ParquetFileFormat"
        or relation.location().getClass().getName() != f"{_PACKAGE}.InMemoryFileIndex"
        or not relation.partitionSchema().isEmpty()
    ):
        return []
    return list(relation.location().inputFiles())


def _name_of(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _expressions(plan: Any) -> Mapping[str, int]:
    """Return the numbers of a node's columns, which nodes that change them renew."""
    output = plan.output()
    columns = [output.apply(number) for number in range(output.size())]
    return {column.name(): column.exprId().id() for column in columns}


def _has_columns(stored: pa.Schema, columns: pa.Schema) -> bool:
    return all(
        stored.get_field_index(field.name) >= 0
        and _comparable(storage_type(stored.field(field.name).type)) == _comparable(field.type)
        for field in columns
    )


def _comparable(kind: pa.DataType) -> pa.DataType:
    """Return the same for types of times that differ only in their zone or their unit."""
    if pa.types.is_timestamp(kind) and kind.unit in ("ms", "us"):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_comparable(storage_type(kind.value_type)))
    return kind
