"""Read CSV and Parquet files as raw rows that keep the name of their file.

Spark treats paths as patterns and skips some files silently. This module checks files first, and
escapes paths for Spark.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._spark.schemas import text_schema

# Columns beside those of the input, under names that an input is unlikely to have.
#: The name of the row's file.
SOURCE = "_purgatory_source"
#: The row as JSON, or as text if it is malformed.
RAW = "_purgatory_raw"
#: Where a row is in its file: rows of one file are in this order.
POSITION = "_purgatory_position"
#: The text of a malformed row, null for others.
CORRUPT = "_purgatory_corrupt"
#: Options of Spark's JSON readers: times without a zone are in UTC, whatever the session's zone.
JSON_ZONE = {"timeZone": "UTC"}
#: Options of Spark's JSON writers, whose default format drops microseconds.
JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", **JSON_ZONE}
CSV_SUFFIXES = (".csv", ".csv.gz", ".csv.bz2")
PARQUET_SUFFIX = ".parquet"
_JSON_SUFFIXES = tuple(
    f".{kind}{packed}" for kind in ("json", "jsonl", "ndjson") for packed in ("", ".gz", ".bz2")
)
#: The suffixes of files by format, in the order in which a folder is searched.
SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "csv": CSV_SUFFIXES,
    "parquet": (PARQUET_SUFFIX,),
    "json": _JSON_SUFFIXES,
    "orc": (".orc",),
    "avro": (".avro",),
}
#: Options of Spark's CSV readers.
CSV_OPTIONS: Mapping[str, Any] = {
    "header": True,
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "escape": '"',  # RFC 4180 doubles quotes
    # With column pruning the reader skips columns that are not selected, and accepts a malformed
    # row.
    "columnPruning": False,
}
#: The key of the table's schema, as JSON, in the footers of Parquet files that Spark wrote.
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
#: Options of Spark's Parquet writers. The session's default, INT96, is deprecated, and few other
#: readers keep its microseconds.
PARQUET_OPTIONS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
_QUOTE, _NEWLINE = b'"\n'
#: By each byte: whether a quote beside it begins or ends a field, or is one of two.
_BOUNDS = np.isin(np.arange(256), list(b'",\r\n'))
_CHUNK_BYTES = 4 * 2**20
#: Functions that open packed files, by suffix.
OPENERS: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


def trace_files(path: Path, formats: Iterable[str] = tuple(SUFFIXES)) -> list[Path]:
    """Return the files of a trace.

    Returns the file itself; or the folder's files of the first format that it has files of, in
    order of name. Hidden files, whose names begin with "." or "_", are left out.
    """
    known = {each: SUFFIXES[each] for each in formats}
    listed = ", ".join(suffix for suffixes in known.values() for suffix in suffixes)
    if not path.exists():
        raise TraceFormatError(f"{path}: no such file or folder")
    if path.is_file():
        if file_format(path.name) not in known:
            raise TraceFormatError(f"{path}: the name ends with none of {listed}")
        files = [path]
        if path.name.startswith((".", "_")):
            raise TraceFormatError(
                f"{path}: Spark skips files whose names begin with '.' or '_'; rename the file"
            )
    else:
        visible = sorted(
            file
            for file in path.iterdir()
            if file.is_file() and not file.name.startswith((".", "_"))
        )
        by_format = (
            [file for file in visible if file.name.endswith(suffixes)]
            for suffixes in known.values()
        )
        files = next(filter(None, by_format), [])
    for file in files:
        if ":" in file.name:
            raise TraceFormatError(
                f"{file}: Spark's file system layer (Hadoop) can't read files with ':' in their "
                "names; rename the file"
            )
    if not files:
        raise TraceFormatError(f"{path}: the folder has no file whose name ends with {listed}")
    return files


def file_format(name: str) -> str | None:
    """Return the format of a file or folder by its name, a key of `SUFFIXES`, or None."""
    return next((kind for kind, suffixes in SUFFIXES.items() if name.endswith(suffixes)), None)


def csv_rows(file: Path) -> Generator[list[str], None, None]:
    """Yield the rows of a CSV file that are not blank, the header first."""
    try:
        # "utf-8-sig" accepts a byte order mark, and the csv module needs newline="". Bytes that are
        # not UTF-8 are replaced here as Spark replaces them; only in the header they are an error.
        with OPENERS.get(file.suffix, open)(
            file, "rt", encoding="utf-8-sig", errors="replace", newline=""
        ) as text:
            yield from (row for row in csv.reader(text) if "".join(row).strip() or len(row) > 1)
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise TraceFormatError(f"{file}: can't be read as CSV text ({error})") from error


def csv_header(file: Path) -> list[str]:
    """Return the column names of a CSV file, from its first line that is not blank."""
    with closing(csv_rows(file)) as rows:
        names = next(rows, None)
    if not names:
        raise TraceFormatError(
            f"{file}: the file is empty; expected a first line with the columns' names"
        )
    if any("\ufffd" in name or "\0" in name for name in names):
        raise TraceFormatError(f"{file}: can't be read as CSV text (its first line is not UTF-8)")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise TraceFormatError(
            f"{file}: the first line has the column {repeated[0]!r} more than once"
        )
    return names


def require_columns(
    source: object, given: Iterable[str], required: Iterable[str], kind: str = "file"
) -> None:
    given = list(given)
    missing = [name for name in required if name not in given]
    if missing:
        raise TraceFormatError(
            f"{source}: missing columns: {', '.join(missing)}; the {kind} has {', '.join(given)}"
        )


def parquet_schema(file: Path) -> pa.Schema:
    try:
        stored = pq.read_metadata(file).schema
        schema = stored.to_arrow_schema()
    except (OSError, ValueError) as error:
        raise TraceFormatError(f"{file}: can't be read as Parquet ({error})") from error
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


def spark_read_path(path: Path) -> str:
    """Return the URL of a local path for Spark's readers, which treat `*`, `[` and `{` as patterns.

    The URL is absolute: in a relative path, Spark takes the text before a colon for a protocol.
    """
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", spark_write_path(path))


def spark_write_path(path: Path) -> str:
    """Return the URL of a local path for Spark's writers, which know no patterns.

    `file://` chooses mounted file systems, also where a cluster has another default.
    """
    return f"file://{os.path.abspath(path)}"


def write_spark_table(table: DataFrame, folder: Path) -> None:
    """Write a table in Parquet, with times in the same type in every session."""
    table.write.options(**PARQUET_OPTIONS).parquet(spark_write_path(folder))


def spark_schema(footer: pq.FileMetaData) -> T.StructType | None:
    """Return the schema of a Parquet file that Spark wrote; None for one of another writer."""
    text = (footer.metadata or {}).get(_SPARK_SCHEMA)
    return T.StructType.fromJson(json.loads(text)) if text else None


def read_spark_table(spark: SparkSession, folder: Path) -> DataFrame:
    """Read a table that Spark wrote in Parquet.

    Given a folder only, Spark would start a job to read the schema from a footer. So the driver
    reads the footer itself. Files of other writers have no such schema, and Spark infers it.
    """
    reader = spark.read
    file = min(folder.glob(f"*{PARQUET_SUFFIX}"), default=None)
    try:
        schema = spark_schema(pq.read_metadata(file)) if file else None
    except (OSError, ValueError):
        schema = None  # Spark's reader raises the error for a damaged file.
    if schema:
        reader = reader.schema(schema)
    return reader.parquet(spark_read_path(folder))


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
    kind = _storage_type(kind)
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


def read_rows(
    spark: SparkSession, files: list[Path], required: Iterable[str], *, base: Path | None = None
) -> DataFrame:
    """Read the `required` columns of CSV or Parquet files, with `SOURCE`, `RAW` and `CORRUPT`.

    All columns of CSV are text. A row with too few or too many fields has its text in `CORRUPT`.

    `base`: the folder of a partitioned table, whose partitions are columns of Parquet files.
    """
    required = list(dict.fromkeys(required))
    if files[0].name.endswith(PARQUET_SUFFIX):
        return _read_parquet(spark, files, required, base)
    # Files of one folder may have their columns in different orders. Spark would use the order of
    # the first file for all.
    by_header: dict[tuple[tuple[str, ...], bool], list[Path]] = defaultdict(list)
    for file in files:
        names = csv_header(file)
        require_columns(file, names, required)
        by_header[tuple(names), has_quoted_newline(file)].append(file)
    return reduce(
        DataFrame.unionByName,
        [
            _read_csv(spark, group, names, required, multi_line=multi_line)
            for (names, multi_line), group in by_header.items()
        ],
    )


def has_quoted_newline(file: Path) -> bool:
    """Return whether fields of a CSV file have newlines, by the quotes before each newline.

    Spark does not divide a file among tasks where it looks for them, so files are searched first:
    1 GB in 0.2 s without quotes. Quotes within a field do not count. With a quote that is open at
    the file's end the answer is no: a line that is not closed is one unusable row then, and not all
    that follow.
    """
    is_open = is_found = False
    carry = b"\n"
    with OPENERS.get(file.suffix, open)(file, "rb") as content:
        while carry:
            chunk = content.read(_CHUNK_BYTES)
            text = carry + (chunk or b"\n")
            # The last byte is looked at with the one after it.
            carry = text[-2:] if chunk else b""
            if b'"' not in text:
                is_found |= is_open and b"\n" in text[1:-1]
                continue
            opens, has_newline = _open_after_quotes(text, is_open)
            is_found |= has_newline
            is_open = opens
    return is_found and not is_open


def _open_after_quotes(text: bytes, is_open: bool) -> tuple[bool, bool]:
    """Return whether a field is open at the end, and whether one had a newline.

    `is_open`: whether one is open at the beginning. The first and the last byte are neighbours.
    """
    marks = np.frombuffer(text, dtype=np.uint8)
    is_bound = _BOUNDS[marks]
    is_quote = (marks[1:-1] == _QUOTE) & (is_bound[:-2] | is_bound[2:])
    is_newline = marks[1:-1] == _NEWLINE
    is_mark = is_quote | is_newline
    opens = np.logical_xor.accumulate(np.append(is_open, is_quote[is_mark]))[1:]
    if not len(opens):
        return is_open, False
    return bool(opens[-1]), bool((opens & is_newline[is_mark]).any())


def _read_csv(
    spark: SparkSession,
    files: list[Path],
    names: tuple[str, ...],
    required: list[str],
    *,
    multi_line: bool,
) -> DataFrame:
    # The columns are read under generated names. The file's own may differ by case only, which
    # Spark can't distinguish, or have characters that it can't parse.
    plain = [f"c{number}" for number in range(len(names))]
    options = {**CSV_OPTIONS, "multiLine": multi_line}
    reader = spark.read.schema(text_schema(*plain, CORRUPT)).options(**options)
    rows = reader.csv([spark_read_path(file) for file in files])
    whole = F.to_json(
        F.struct(*[F.col(ours).alias(theirs) for ours, theirs in zip(plain, names, strict=True)])
    )
    wanted = [F.col(plain[names.index(name)]).alias(name) for name in required]
    raw = F.coalesce(CORRUPT, whole).alias(RAW)
    return rows.select(*wanted, file_name(), file_position(), raw, CORRUPT)


def _read_parquet(
    spark: SparkSession, files: list[Path], required: list[str], base: Path | None
) -> DataFrame:
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
            found[field.name].setdefault(_storage_type(field.type), file)
    common = {name: _common_type(name, found[name]) for name in required if found[name]}
    tables = []
    for schema, group in by_schema.items():
        rows = read_parquet(spark, *group, base=base)
        whole = F.to_json(F.struct("*"), JSON_ZONE)
        rows = rows.withColumn(RAW, whole).select("*", file_name(), file_position())
        rows = with_nested(rows, required)
        require_columns(group[0], rows.columns, required)
        columns = {name: F.col(quote_column(name)) for name in rows.columns}
        for name, kind in common.items():
            column = without_nanoseconds(columns[name], _storage_type(schema.field(name).type))
            columns[name] = column.cast(kind) if kind else column
        wanted = [columns[name].alias(name) for name in required]
        no_text = F.lit(None).cast("string").alias(CORRUPT)
        tables.append(rows.select(*wanted, SOURCE, POSITION, RAW, no_text))
    return reduce(DataFrame.unionByName, tables)


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


def _storage_type(kind: pa.DataType) -> pa.DataType:
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


def quote_column(name: str) -> str:
    """Return a column's name quoted for expressions, so that it may have any characters."""
    return "`" + name.replace("`", "``") + "`"


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
