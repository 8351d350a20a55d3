"""Wrong arguments of a Trace: documented errors, before any Spark job where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from purgatory_spark import (
    HostTooLargeError,
    SchemaError,
    Trace,
    TraceFormatError,
    Workload,
    workload_trace,
)
from purgatory_spark._output_folder import OutputExistsError
from request_purgatory import InvalidArgumentError
from tests.misuse.hostile_values import HOSTILE, HostileError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: What a wrong call may raise.
EXPECTED = (
    *(InvalidArgumentError, TypeError, SchemaError, TraceFormatError),
    *(HostTooLargeError, OutputExistsError, HostileError),
)

#: Values that can't be right, whatever the argument is.
VALUES = (
    *("-1", "2**64", "1.5", "nan", "list of None", "object", "class", "function"),
    *("__index__ raises", "__eq__ raises", "__repr__ raises", "__getattr__ raises"),
    *("closed purgatory", "operation without __init__"),
)

#: By their names: the calls, each with one argument to be wrong.
CALLS: dict[str, Callable[[Trace, SparkSession, Any], object]] = {
    "requests": lambda trace, _, value: Trace(value, trace.events),
    "events": lambda trace, _, value: Trace(trace.requests, value),
    "name": lambda trace, _, value: Trace(trace.requests, trace.events, name=value),
    "marks": lambda trace, _, value: Trace(trace.requests, trace.events, marks=value),
    "max_worker_mb": lambda trace, _, value: Trace(
        trace.requests, trace.events, max_worker_mb=value
    ),
    "from_table requests": lambda trace, _, value: Trace.from_table(
        value, arrived_at="arrived_at", timeout_ms=250
    ),
    "from_table mapping": lambda trace, _, value: Trace.from_table(trace.requests, value),
    "from_table events": lambda trace, _, value: Trace.from_table(
        trace.requests, events=value, arrived_at="arrived_at", timeout_ms=250
    ),
    "from_table arrived_at": lambda trace, _, value: Trace.from_table(
        trace.requests, arrived_at=value, timeout_ms=250
    ),
    "from_table timeout_ms": lambda trace, _, value: Trace.from_table(
        trace.requests, arrived_at="arrived_at", timeout_ms=value
    ),
    "read spark": lambda _, __, value: Trace.read(value, "no such file.csv"),
    "read source": lambda _, spark, value: Trace.read(spark, value),
    "read settings": lambda _, spark, value: Trace.read(spark, "no such file.csv", value),
    "replay design": lambda trace, _, value: trace.replay(value),
    "replay tick_ms": lambda trace, _, value: trace.replay(tick_ms=value),
    "replay unknown": lambda trace, _, value: trace.replay(no_such_parameter=value),
    "what_if": lambda trace, _, value: trace.what_if(value),
    "what_if of one": lambda trace, _, value: trace.what_if([value]),
    "report folder": lambda trace, _, value: trace.report(value),
    "report designs": lambda trace, _, value: trace.report("report", designs=value),
}


@pytest.fixture(scope="module")
def trace(spark: SparkSession) -> Trace:
    """Return a small trace."""
    tables = workload_trace(spark, Workload(requests=10))
    return Trace(*tables)


@pytest.mark.parametrize("call", CALLS)
def test_wrong_argument_is_refused_by_a_documented_error(
    spark: SparkSession,
    trace: Trace,
    call: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for value in VALUES:
        try:
            CALLS[call](trace, spark, HOSTILE[value]())
        except EXPECTED:
            continue
        except BaseException as error:
            found.append(f"{value}: {type(error).__name__}: {str(error)[:200]}")
    assert not found
    assert list(tmp_path.iterdir()) == []
