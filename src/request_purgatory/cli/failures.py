"""Failures in words that say what to do next, and their exit codes."""

from __future__ import annotations

import re
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.spark.archive import ArchiveError
from request_purgatory.pipeline.spark.host_sizes import HostTooLargeError
from request_purgatory.pipeline.spark.java import JavaNotFoundError
from request_purgatory.pipeline.spark.workers import WorkersError
from request_purgatory.pipeline.stream.checkpoint import CheckpointError
from request_purgatory.pipeline.stream.endpoints.connector import ConnectorError
from request_purgatory.pipeline.stream.endpoints.endpoint import EndpointError
from request_purgatory.pipeline.traces.importers.imported import TraceFormatError
from request_purgatory.pipeline.traces.output_folder import OutputExistsError
from request_purgatory.pipeline.traces.schema import SchemaError

_FAILED = 1
_BAD_INPUT = 2
_MISSING_TOOL = 4

#: What Spark says of files it can't read, somewhere in a message of many lines.
_FILE = re.compile(r"(?:file:/*)?(/[^\s'\"]+\.(?:csv|parquet|gz|bz2))")
#: The last line of a traceback.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception): ")
#: What Spark says of a Parquet file with another type than was asked for.
_OTHER_TYPE = re.compile(
    r"reading Parquet column \[(.+?)\]\. Expected Spark type (.+?), actual Parquet type (.+?)\."
)
#: What a Python worker found out about an input.
_WORKERS_FINDING = f"{TraceFormatError.__module__}.{TraceFormatError.__qualname__}: "
_OF_INPUT = (
    InvalidArgumentError,
    TraceFormatError,
    SchemaError,
    OutputExistsError,
    CheckpointError,
    EndpointError,
    HostTooLargeError,
)
_CORRUPT = (
    "ZipException",
    "EOFException",
    "not a Parquet file",
    "CANNOT_READ_FILE",
    "FAILED_READ_FILE",
    "DataFormatException",
)


def describe_failure(error: Exception) -> tuple[int, str]:
    """The exit code of a failed command, and what to tell its user."""
    if isinstance(error, (JavaNotFoundError, ConnectorError)):
        return _MISSING_TOOL, str(error)
    if isinstance(error, _OF_INPUT):
        return _BAD_INPUT, str(error)
    if isinstance(error, (ArchiveError, WorkersError)):
        return _FAILED, str(error)
    if isinstance(error, (PySparkException, Py4JError)):
        text = str(error)
        file = _FILE.search(text)
        # Spark names a file as a URL has it.
        name = (
            ""
            if not file
            else unquote(file.group(1))
            if file.group(0).startswith("file:")
            else file.group(1)
        )
        differs = _OTHER_TYPE.search(text)
        if file and differs:
            column, wanted, stored = differs.groups()
            return (
                _BAD_INPUT,
                f"{name}: column {column} is of the Parquet type {stored}, not {wanted}",
            )
        if file and any(word in text for word in _CORRUPT):
            return (
                _BAD_INPUT,
                f"{name}: can't be read to its end; the file is damaged or not what its name says",
            )
        lines = [line.strip() for line in text.splitlines() if line.strip()] or ["Spark failed"]
        # A Python worker's message is a traceback, which ends with what it was, and a stream's plan
        # may follow; Spark's own begins with it.
        raised = [line for line in lines if _RAISED.match(line)]
        if raised and raised[-1].startswith(_WORKERS_FINDING):
            return _BAD_INPUT, raised[-1].removeprefix(_WORKERS_FINDING)
        told = (raised or lines)[-1] if "Python worker" in lines[0] else lines[0]
        return _FAILED, f"{told}\n(run it again with -v to see everything that Spark says)"
    return _FAILED, f"{type(error).__name__}: {error}\n(run it again with -v to see where)"
