"""The commands that make traces, and replay them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from purgatory_command_line.command import command, print_error
from purgatory_command_line.converters import LocalPath
from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.output import OutputOptions
from purgatory_command_line.settings_options import FieldsOf, Given
from purgatory_spark._analysis.replay_folder import replay_trace
from purgatory_spark._cli import session
from purgatory_spark._cli.failures import describe_failure
from purgatory_spark._cli.import_options import ImportOptions
from purgatory_spark._cli.options import (
    Count,
    Force,
    count,
    print_made,
)
from purgatory_spark._outcomes.replay import DESIGNS, ReplaySettings
from purgatory_spark._output_folder import output_folder
from purgatory_spark._run import RunPlan, print_replay_rate, print_row_counts
from purgatory_spark._spark.job_progress import step
from purgatory_spark._spark.small_files import are_small
from purgatory_spark._traces.trace_folder import TraceFolder, import_trace, make_workload_trace
from purgatory_spark._traces.trace_reader import check_source
from purgatory_spark._traces.workload import CASES, Workload
from request_purgatory.errors import InvalidArgumentError

#: The name of a published workload.
Case = Annotated[str, Parameter(choices=tuple(CASES))]
#: The options of one purgatory.
PurgatoryOptions = Annotated[
    ReplaySettings,
    FieldsOf(ReplaySettings, "Purgatory", changes={"design": Parameter(choices=DESIGNS)}),
]


_MemoryOptions = Annotated[
    Given,
    FieldsOf(
        RunPlan, only=("max_worker_mb",), changes={"max_worker_mb": Parameter(converter=count)}
    ),
]


@command(describe_failure)
def make_workload(
    *,
    out: LocalPath,
    case: Case = "low",
    workload: Annotated[
        Given,
        FieldsOf(
            Workload,
            "Workload",
            only=("requests", "rate", "hosts", "keys", "shared_keys", "timeout_ms", "seed"),
        ),
    ],
    requests_per_host: Annotated[Count | None, Parameter(group="Workload")] = None,
    force: Force = False,
    output: OutputOptions,
) -> ExitCode:
    """Make a published workload as a trace.

    Args:
        out: The trace folder to make.
        case: The service times: `low` or `high`, for a low or high share of timeouts.
        workload: What differs from the published workload.
        requests_per_host: Generate each host by itself, with this number of requests, as
            `purgatory simulate` does; in place of `--requests`.
        force: See `Force`.
        output: See `Output`.
    """
    chosen = replace(CASES[case], **workload)
    if requests_per_host is not None:
        if "requests" in workload:
            raise InvalidArgumentError(
                "requests_per_host", "given without --requests", requests_per_host
            )
        chosen = replace(chosen, requests=chosen.hosts * requests_per_host, host_by_host=True)
    label = f"make workload {chosen.name}: {chosen.requests:,} requests"
    with output_folder(out, replace=force) as folder, session.open_session() as spark:
        with step(output.console, spark, label):
            trace = make_workload_trace(spark, chosen, folder)
        print_row_counts(output.console, trace)
    print_made(output, out, following=f"replay {out} --out NAME", result=trace.manifest)
    return ExitCode.OK


@command(describe_failure)
def import_source(
    source: Annotated[str, Parameter(metavar="TABLE")],
    /,
    *,
    out: LocalPath,
    settings: ImportOptions,
    force: Force = False,
    output: OutputOptions,
) -> ExitCode:
    """Import a recorded trace: make requests and events of it.

    Args:
        source: A file, a folder of files, or a URI. Formats are CSV, JSON lines (both also .gz,
            .bz2), Parquet and ORC. Or `FORMAT:NAME_OR_PATH` with csv, json, parquet, orc, delta,
            iceberg, or table for a table of the catalog.
        out: The trace folder to make.
        settings: How to import it.
        force: See `Force`.
        output: See `Output`.
    """
    check_source(source, settings)
    small = are_small(source, settings.events)
    with output_folder(out, replace=force) as folder, session.open_session(small=small) as spark:
        with step(output.console, spark, f"import {source}"):
            trace = import_trace(spark, source, folder, settings)
        print_row_counts(output.console, trace)
    if not trace.manifest["rows"]["requests out"]:
        print_made(output, out, result=trace.manifest)
        print_error(f"{source}: no request is left; {out / 'rejects'} has the rows and reasons")
        return ExitCode.BAD_INPUT
    print_made(output, out, following=f"replay {out} --out NAME", result=trace.manifest)
    return ExitCode.OK


@command(describe_failure)
def replay(
    trace: LocalPath,
    /,
    *,
    out: LocalPath,
    settings: PurgatoryOptions,
    limits: _MemoryOptions,
    force: Force = False,
    output: OutputOptions,
) -> ExitCode:
    """Replay a trace through a real purgatory, on virtual time.

    Args:
        trace: A trace folder.
        out: The replay folder to make.
        settings: The purgatory.
        limits: The memory limit.
        force: See `Force`.
        output: See `Output`.
    """
    opened = TraceFolder(trace)
    opened.require_requests()
    label = f"replay {opened.name}, {settings.design}"
    small = are_small(trace)
    with output_folder(out, replace=force) as folder, session.open_session(small=small) as spark:
        with step(output.console, spark, label):
            replayed = replay_trace(spark, opened, settings, folder, **limits)
        print_replay_rate(output.console, spark, replayed)
    print_made(
        output,
        out,
        following=f"analyze {trace} --replay {out} --out NAME",
        result={"settings": settings.parameters()},
    )
    return ExitCode.OK
