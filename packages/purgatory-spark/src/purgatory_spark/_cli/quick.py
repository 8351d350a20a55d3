"""The command that answers which timeout without Spark, for a trace that fits this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Annotated, cast

import pyarrow as pa
from cyclopts import Parameter
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from purgatory_command_line.command import command
from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.output import OutputOptions
from purgatory_spark._analysis.units import format_bytes, format_ms, format_share
from purgatory_spark._cli.import_options import LocalImportOptions
from purgatory_spark._cli.options import Timeouts
from purgatory_spark._errors import SchemaError, TraceFormatError
from purgatory_spark._local.quick_trace import QuickTrace
from purgatory_spark._local.trace_answer import TraceAnswer
from purgatory_spark._traces.import_settings import ImportSettings
from request_purgatory.errors import InvalidArgumentError


def describe_failure(error: Exception) -> tuple[ExitCode, str]:
    if isinstance(error, (InvalidArgumentError, TraceFormatError, SchemaError)):
        return ExitCode.BAD_INPUT, str(error)
    return ExitCode.FAILED, f"{type(error).__name__}: {error}\n(-v shows the traceback)"


@command(describe_failure)
def quick(
    source: Annotated[str, Parameter(metavar="TABLE")],
    /,
    *,
    timeouts: Timeouts | None = None,
    imports: LocalImportOptions,
    output: OutputOptions,
) -> ExitCode:
    """Say which timeout to choose, without Java and Spark.

    The trace has to fit this machine. Its rows are mapped, checked and computed as by the other
    commands. There is no replay and no report.

    Args:
        source: A trace folder; or a file or a folder of files, in CSV, JSON lines (both also .gz,
            .bz2) or Parquet; or a text log.
        timeouts: What-if timeouts in ms; chosen unless given.
        imports: How to read the trace.
        output: See `Output`.
    """
    # Of the pools that all wheels have, it takes the least system time.
    pa.set_memory_pool(pa.system_memory_pool())
    with _without_pandas():
        trace = QuickTrace(source, ImportSettings(**imports))
        answer = trace.answer(cast("list[int] | None", timeouts))
    if answer is None:
        raise TraceFormatError(f"{source}: the trace has no requests{_reasons(trace.rejected)}")
    _print(output.console, source, answer, trace.rejected)
    output.print_result(
        {
            "requests": answer.requests,
            "expired": answer.expired,
            "rejected": trace.rejected,
            "timeouts_in_use_ms": answer.timeouts_in_use,
            "recommended_timeout_ms": answer.recommendation.timeout_ms,
            "findings": answer.recommendation.sentences,
            "what_if": answer.what_if,
        }
    )
    return ExitCode.OK


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def _without_pandas() -> Iterator[None]:
    """Keep Arrow from importing pandas in the block, unless it is imported already.

    Arrow imports it when it first sees an array of NumPy's, only to ask whether it is pandas'. That
    takes as long as all the rest for a small file.
    """
    hidden = _NoPandas()
    sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(hidden)


def _reasons(rejected: Mapping[str, int]) -> str:
    listed = ", ".join(f"{count:,} {reason}" for reason, count in rejected.items())
    return f"; rejected: {listed}" if listed else ""


def _print(console: Console, source: str, answer: TraceAnswer, rejected: Mapping[str, int]) -> None:
    for reason, count in rejected.items():
        console.print(f"  [yellow]rejected[/] {count:,}: {escape(reason)}")
    table = Table(title=f"{answer.requests:,} requests", box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in ("timeout", "expired", "share", "mean wait", "peak pending", "peak memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in answer.what_if:
        in_use = " (in use)" if row["timeout_ms"] in answer.timeouts_in_use else ""
        table.add_row(
            format_ms(row["timeout_ms"]) + in_use,
            f"{row['expired']:,}",
            format_share(row["expired_share"]),
            format_ms(row["mean_waited_ms"]),
            f"{row['peak_pending']:,}",
            format_bytes(row["peak_bytes"]),
        )
    console.print(table)
    name = escape(Path(source).resolve().name)
    console.print(f"{name}: [bold]{escape(answer.recommendation.reason)}[/]", soft_wrap=True)
    for sentence in answer.recommendation.details:
        console.print(f"  {escape(sentence)}", soft_wrap=True)
