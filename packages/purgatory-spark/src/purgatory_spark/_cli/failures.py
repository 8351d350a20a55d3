"""Failures of the commands on Spark: exit codes, and messages that say what to do next."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from purgatory_command_line.exit_codes import ExitCode
from purgatory_spark._errors import SchemaError, TraceFormatError
from purgatory_spark._output_folder import OutputExistsError
from purgatory_spark._rows.host_sizes import HostTooLargeError
from purgatory_spark._spark.archive import ArchiveError
from purgatory_spark._spark.damage import describe_damage, file_named_in
from purgatory_spark._spark.java import JavaNotFoundError
from purgatory_spark._spark.session import SessionSettingError
from purgatory_spark._spark.workers import WorkersError
from purgatory_spark._stream.checkpoint import CheckpointError
from purgatory_spark._stream.endpoints.connector import ConnectorError
from purgatory_spark._stream.endpoints.endpoint import EndpointError
from purgatory_spark._stream.run import DrainError
from purgatory_spark._stream.state.layout import StateLayoutError
from request_purgatory.errors import InvalidArgumentError

#: The last line of a traceback.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception): ")
#: Spark's message for a Parquet column of another type than the schema's.
_OTHER_TYPE = re.compile(
    r"reading Parquet column \[(.+?)\]\. Expected Spark type (.+?), actual Parquet type (.+?)\."
)
#: How the message of a Python worker begins that found an input, or stored state, to be unusable.
_WORKERS_FINDING = re.compile(
    "|".join(
        re.escape(f"{error.__module__}.{error.__qualname__}: ")
        for error in (TraceFormatError, StateLayoutError)
    )
)
_BAD_INPUT = (
    InvalidArgumentError,
    TraceFormatError,
    SchemaError,
    OutputExistsError,
    CheckpointError,
    EndpointError,
    HostTooLargeError,
    SessionSettingError,
)
_JVM_GONE = (
    "Spark's JVM has ended or does not answer any more; the system may have killed it for lack of "
    "memory, or another process did. Start the command again (-v shows the traceback)"
)


def describe_failure(error: Exception) -> tuple[ExitCode, str]:
    """Return the exit code of a failed command, and the message for its user."""
    if isinstance(error, (JavaNotFoundError, ConnectorError)):
        return ExitCode.MISSING_DEPENDENCY, str(error)
    if isinstance(error, _BAD_INPUT):
        return ExitCode.BAD_INPUT, str(error)
    if isinstance(error, (ArchiveError, DrainError, WorkersError)):
        return ExitCode.FAILED, str(error)
    if isinstance(error, (Py4JNetworkError, ConnectionError)):
        # The call that was under way has one of these, and later calls another one.
        return ExitCode.FAILED, _JVM_GONE
    if isinstance(error, (PySparkException, Py4JError)):
        return _describe_spark_failure(str(error))
    return ExitCode.FAILED, f"{type(error).__name__}: {error}\n(-v shows the traceback)"


def _describe_spark_failure(text: str) -> tuple[ExitCode, str]:
    """Return the exit code and the message for what Spark, or a Python worker of it, raised."""
    if name := file_named_in(text):
        if differs := _OTHER_TYPE.search(text):
            column, wanted, stored = differs.groups()
            message = f"{name}: column {column} is of the Parquet type {stored}, not {wanted}"
            return ExitCode.BAD_INPUT, message
        if damage := describe_damage(text):
            return ExitCode.BAD_INPUT, damage
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["Spark failed"]
    # A Python worker's message is a traceback, whose last line is the error, and a stream's plan
    # may follow; Spark's own message begins with the error.
    raised = [line for line in lines if _RAISED.match(line)]
    if raised and (finding := _WORKERS_FINDING.match(raised[-1])):
        return ExitCode.BAD_INPUT, raised[-1][finding.end() :]
    summary = (raised or lines)[-1] if "Python worker" in lines[0] else lines[0]
    return ExitCode.FAILED, f"{summary}\n(-v shows Spark's whole message)"
