"""Damaged files: what Spark's errors say of them, in one sentence with the file and the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from purgatory_spark._errors import TraceFormatError

#: A file that Spark can't read, somewhere in a message of many lines.
_FILE = re.compile(r"(?:file:/*)?(/[^\s'\"]+\.(?:csv|parquet|orc|avro|jsonl?|ndjson|gz|bz2))")
_SIGNS = (
    "ZipException",
    "EOFException",
    "not a Parquet file",
    "CANNOT_READ_FILE",
    "FAILED_READ_FILE",
    "DataFormatException",
)
#: The innermost exception of Java's, with its message.
_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+: .+)$", re.MULTILINE)


def file_named_in(text: str) -> str | None:
    """Return the first file that a message of Spark's names."""
    if not (file := _FILE.search(text)):
        return None
    # Spark names a file as a URL has it.
    return unquote(file.group(1)) if file.group(0).startswith("file:") else file.group(1)


def describe_damage(text: str) -> str | None:
    """Return which file a message of Spark's finds to be damaged, and why; None if it does not."""
    name = file_named_in(text)
    if name is None or not any(sign in text for sign in _SIGNS):
        return None
    problem = "can't be read to its end; the file is damaged or not what its name says"
    if "STREAM_FAILED" in text and ".csv" in name:
        # Spark does not say which of the two it is.
        problem = (
            "can't be read: the file is damaged, or its columns are not those of the stream's "
            "first file, in the same order"
        )
    reason = innermost_cause(text)
    return f"{name}: {problem}" + (f" ({reason})" if reason else "")


def innermost_cause(text: str) -> str | None:
    """Return the class and the message of the Java exception that others wrap."""
    causes = _CAUSE.findall(text)
    return causes[-1].strip() if causes else None


@contextmanager
def damage_described() -> Iterator[None]:
    """Raise a TraceFormatError in place of an error of Spark's that is about a damaged file."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        message = describe_damage(str(error))
        if message is None:
            raise
        raise TraceFormatError(message) from error
