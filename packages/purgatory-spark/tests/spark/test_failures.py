"""Messages and exit codes of failures on Spark."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from purgatory_command_line.exit_codes import ExitCode
from purgatory_spark._cli.failures import describe_failure
from purgatory_spark._errors import SchemaError, TraceFormatError
from purgatory_spark._output_folder import OutputExistsError
from purgatory_spark._spark.java import JavaNotFoundError
from purgatory_spark._stream.endpoints.connector import ConnectorError
from purgatory_spark._stream.state.layout import StateLayoutError
from request_purgatory import InvalidArgumentError


@pytest.mark.parametrize("kind", [TraceFormatError, SchemaError, OutputExistsError])
def test_message_of_bad_input_is_unchanged(kind: type[Exception]) -> None:
    assert describe_failure(kind("a.csv: no column b")) == (
        ExitCode.BAD_INPUT,
        "a.csv: no column b",
    )


def test_invalid_argument_is_bad_input() -> None:
    assert describe_failure(InvalidArgumentError("tick_ms", "at least 1", 0)) == (
        ExitCode.BAD_INPUT,
        "tick_ms must be at least 1, got 0",
    )


@pytest.mark.parametrize("kind", [JavaNotFoundError, ConnectorError])
def test_missing_software_has_its_own_exit_code(kind: type[Exception]) -> None:
    assert describe_failure(kind("needed")) == (ExitCode.MISSING_DEPENDENCY, "needed")


@pytest.mark.parametrize(
    "text",
    [
        "[FAILED_READ_FILE] Encountered error while reading file file:///data/a.csv.gz. "
        "SQLSTATE: KD001\nUnexpected end",
        "Job aborted\nCaused by: java.io.EOFException: Unexpected end of input stream\n\t"
        "at file:/data/a.csv.gz x",
        "Could not read\n/data/a.csv.gz is not a Parquet file",
    ],
)
def test_damaged_file_is_bad_input(text: str) -> None:
    code, message = describe_failure(Py4JError(text))
    assert (code, message.split(":")[0]) == (ExitCode.BAD_INPUT, "/data/a.csv.gz")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[PATH_NOT_FOUND] Path does not exist: /a.\n  at org.apache",
            "[PATH_NOT_FOUND] Path does not exist: /a.",
        ),
        (
            "An exception was thrown from the Python worker:\n"
            "Traceback:\n  File x\nValueError: odd\n\n",
            "ValueError: odd",
        ),
        (
            "[FAILED] in the Python worker: Traceback:\n  File x\n"
            "x.TooLargeError: 9 rows: use more\n SQLSTATE: 3\n+- Plan",
            "x.TooLargeError: 9 rows: use more",
        ),
        ("\n \n", "Spark failed"),
    ],
)
def test_other_failure_of_spark_is_one_line(text: str, line: str) -> None:
    code, message = describe_failure(Py4JError(text))
    assert (code, message) == (ExitCode.FAILED, f"{line}\n(-v shows Spark's whole message)")


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "Connection refused"),
        ConnectionResetError(104, "Connection reset by peer"),
    ],
)
def test_jvm_that_is_gone_is_named(error: Exception) -> None:
    code, message = describe_failure(error)
    assert code == ExitCode.FAILED
    assert message.startswith("Spark's JVM has ended or does not answer any more")


@pytest.mark.parametrize("kind", [TraceFormatError, StateLayoutError])
def test_input_or_state_that_a_worker_refuses_is_bad_input(kind: type[Exception]) -> None:
    text = f"in the Python worker: Traceback:\n  File x\n{kind.__module__}.{kind.__name__}: odd\n"
    assert describe_failure(Py4JError(text)) == (ExitCode.BAD_INPUT, "odd")


def test_unforeseen_failure_has_the_errors_type() -> None:
    assert describe_failure(ZeroDivisionError("division by zero")) == (
        ExitCode.FAILED,
        "ZeroDivisionError: division by zero\n(-v shows the traceback)",
    )
