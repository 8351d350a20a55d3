"""CSV files: their header, their newlines within quotes, and their rows as text."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._spark.files import CORRUPT, OPENERS

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
_QUOTE, _NEWLINE = b'"\n'
#: By each byte: whether a quote beside it begins or ends a field, or is one of two.
_BOUNDS = np.isin(np.arange(256), list(b'",\r\n'))
_CHUNK_BYTES = 4 * 2**20


@contextmanager
def damage_named(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise TraceFormatError(f"{file}: can't be read as CSV text ({error})") from error


def csv_rows(file: Path) -> Generator[list[str], None, None]:
    """Yield the rows of a CSV file that are not blank, the header first."""
    # "utf-8-sig" accepts a byte order mark, and the csv module needs newline="". Bytes that are
    # not UTF-8 are replaced here as Spark replaces them; only in the header they are an error.
    options = {"encoding": "utf-8-sig", "errors": "replace", "newline": ""}
    with damage_named(file), OPENERS.get(file.suffix, open)(file, "rt", **options) as text:
        yield from (row for row in csv.reader(text) if "".join(row).strip() or len(row) > 1)


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


def has_quoted_newline(file: Path) -> bool:
    """Return whether fields of a CSV file have newlines, by the quotes before each newline.

    Spark does not divide a file among tasks where it looks for them, so files are searched first:
    1 GB in 0.2 s without quotes. Quotes within a field do not count. With a quote that is open at
    the file's end the answer is no: a line that is not closed is one unusable row then, and not all
    that follow.
    """
    is_open = is_found = False
    carry = b"\n"
    with damage_named(file), OPENERS.get(file.suffix, open)(file, "rb") as content:
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


def is_cut_in_field(lines: bytes) -> bool:
    """Return whether lines of a file begin or end within a field, or have one with a newline."""
    is_open, has_newline = _open_after_quotes(b"\n" + lines + b"\n", False)
    return is_open or has_newline


def _open_after_quotes(text: bytes, is_open: bool) -> tuple[bool, bool]:
    """Return whether a field is open at the end, and whether one had a newline.

    `is_open`: whether one is open at the beginning. The first and the last byte are neighbours.
    """
    marks = np.frombuffer(text, dtype=np.uint8)
    quotes, newlines = (np.flatnonzero(marks[1:-1] == mark) + 1 for mark in (_QUOTE, _NEWLINE))
    quotes = quotes[_BOUNDS[marks[quotes - 1]] | _BOUNDS[marks[quotes + 1]]]
    in_quotes = np.searchsorted(quotes, newlines) % 2 != is_open
    return len(quotes) % 2 != is_open, bool(in_quotes.any())
