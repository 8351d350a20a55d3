"""What a user is told of a failure, and the exit code."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError

from request_purgatory import InvalidArgumentError
from request_purgatory.cli.failures import describe_failure
from request_purgatory.pipeline.spark.java import JavaNotFoundError
from request_purgatory.pipeline.traces.importers.imported import TraceFormatError
from request_purgatory.pipeline.traces.output_folder import OutputExistsError
from request_purgatory.pipeline.traces.schema import SchemaError


@pytest.mark.parametrize("kind", [TraceFormatError, SchemaError, OutputExistsError])
def test_bad_input_is_told_in_its_own_words(kind: type[Exception]) -> None:
    """Nothing is put around them."""
    assert describe_failure(kind("a.csv: no column b")) == (2, "a.csv: no column b")


def test_bad_argument_is_told_with_its_value() -> None:
    """As bad input."""
    assert describe_failure(InvalidArgumentError("tick_ms", "at least 1", 0)) == (
        2,
        "tick_ms must be at least 1, got 0",
    )


def test_missing_java_has_a_code_of_its_own() -> None:
    """So a script can tell it from a bad trace."""
    assert describe_failure(JavaNotFoundError("Spark needs Java")) == (4, "Spark needs Java")


@pytest.mark.parametrize(
    "told",
    [
        "[FAILED_READ_FILE] Encountered error while reading file file:///data/a.csv.gz. SQLSTATE: KD001\nUnexpected end",
        "Job aborted\nCaused by: java.io.EOFException: Unexpected end of input stream\n\tat file:/data/a.csv.gz x",
        "Could not read\n/data/a.csv.gz is not a Parquet file",
    ],
)
def test_damaged_file_is_bad_input_whatever_spark_calls_it(told: str) -> None:
    """By its path, without the protocol."""
    code, message = describe_failure(Py4JError(told))
    assert (code, message.split(":")[0]) == (2, "/data/a.csv.gz")


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (
            "[PATH_NOT_FOUND] Path does not exist: /a.\n  at org.apache",
            "[PATH_NOT_FOUND] Path does not exist: /a.",
        ),
        (
            "An exception was thrown from the Python worker:\nTraceback:\n  File x\nValueError: odd\n\n",
            "ValueError: odd",
        ),
        (
            "[FAILED] in the Python worker: Traceback:\n  File x\nx.TooLargeError: 9 rows: use more\n SQLSTATE: 3\n+- Plan",
            "x.TooLargeError: 9 rows: use more",
        ),
        ("\n \n", "Spark failed"),
    ],
)
def test_of_other_failures_of_spark_one_line_is_told(told: str, line: str) -> None:
    """The one that says what it was; and how to see the others."""
    code, message = describe_failure(Py4JError(told))
    assert (code, message.split("\n")[0]) == (1, line)
    assert "run it again with -v" in message


def test_unforeseen_failure_is_told_by_its_kind() -> None:
    """It is a fault of ours, and not the user's."""
    assert describe_failure(ZeroDivisionError("division by zero")) == (
        1,
        "ZeroDivisionError: division by zero\n(run it again with -v to see where)",
    )
