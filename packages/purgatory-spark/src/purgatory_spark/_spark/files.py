"""Find the files of a trace, and name the columns that say where in a file a row was.

Spark treats paths as patterns and skips some files silently. This module checks files first, and
escapes paths for Spark.
"""

from __future__ import annotations

import bz2
import gzip
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from purgatory_spark._errors import TraceFormatError

# Columns beside those of the input, under names that an input is unlikely to have.
#: The name of the row's file.
SOURCE = "_purgatory_source"
#: The row, as a struct or as text. `file_columns.row_text` makes JSON of it where it is needed.
RAW = "_purgatory_raw"
#: Where a row is in its file: rows of one file are in this order.
POSITION = "_purgatory_position"
#: The text of a malformed row, null for others.
CORRUPT = "_purgatory_corrupt"
#: Options of Spark's JSON readers: times without a zone are in UTC, whatever the session's zone.
JSON_ZONE = {"timeZone": "UTC"}
#: Options of Spark's JSON writers, whose default format drops microseconds.
JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", **JSON_ZONE}
#: What a URI begins with; in one that became a path, two slashes are one.
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
#: Characters of Spark's patterns of paths.
_PATTERN = re.compile(r"[\\*?\[\]{}]")
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


def require_columns(
    source: object, given: Iterable[str], required: Iterable[str], kind: str = "file"
) -> None:
    given = list(given)
    missing = [name for name in required if name not in given]
    if missing:
        raise TraceFormatError(
            f"{source}: missing columns: {', '.join(missing)}; the {kind} has {', '.join(given)}"
        )


def spark_read_path(path: Path) -> str:
    """Return the URL of a local path for Spark's readers, which treat `*`, `[` and `{` as patterns.

    The URL is absolute: in a relative path, Spark takes the text before a colon for a protocol.
    """
    return _PATTERN.sub(r"\\\g<0>", spark_write_path(path))


def require_no_pattern(path: Path) -> None:
    """Refuse a path of a stream's input that has a pattern's characters.

    Spark's streaming readers would read other files of the batch twice (seen in Spark 4.3).
    """
    if found := _PATTERN.search(os.path.abspath(path)):
        raise TraceFormatError(
            f"{path}: in a stream, Spark reads files twice if a path has {found[0]!r}; rename it, "
            "and begin with a new checkpoint"
        )


def require_no_patterns_in(folder: Path) -> None:
    """Refuse a folder with a path that has a pattern's characters; see `require_no_pattern`.

    Hidden files and folders are left out, as Spark does not read them.
    """
    require_no_pattern(folder)
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in (*folders, *files):
            if _PATTERN.search(name) and not name.startswith((".", "_")):
                require_no_pattern(Path(parent, name))


def spark_write_path(path: Path) -> str:
    """Return the URL of a local path for Spark's writers, which know no patterns.

    `file://` chooses mounted file systems, also where a cluster has another default.
    """
    return f"file://{os.path.abspath(path)}"


def quote_column(name: str) -> str:
    """Return a column's name quoted for expressions, so that it may have any characters."""
    return "`" + name.replace("`", "``") + "`"
