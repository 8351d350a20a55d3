"""The command `purgatory`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from request_purgatory.cli.broker import run_broker_command
from request_purgatory.cli.options import make_parser
from request_purgatory.cli.session import open_console, open_session
from request_purgatory.cli.stream import stream

if TYPE_CHECKING:
    from rich.console import Console

    from request_purgatory.pipeline.traces.trace_folder import ImportSettings

# Exit codes.
OK = 0
FAILED = 1
BAD_INPUT = 2
OUTCOMES_DIFFER = 3
MISSING_TOOL = 4
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code."""
    options = make_parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    if options.command in ("broker", "control"):
        return run_broker_command(options)
    try:
        from request_purgatory.cli.failures import describe_failure
    except ModuleNotFoundError as missing:
        return _tell_missing(missing)
    if not options.verbose:
        # PySpark prints its errors as JSON, too; what they say is told below.
        logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        code = COMMANDS[options.command](options)
    except ModuleNotFoundError as missing:
        return _tell_missing(missing)
    except KeyboardInterrupt:
        print("purgatory: interrupted; nothing was left half-written", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        code, message = describe_failure(error)
        if options.verbose:
            logging.getLogger(__name__).exception("the command failed")
        print(f"purgatory: {message}", file=sys.stderr)
    return code


def _tell_missing(missing: ModuleNotFoundError) -> int:
    print(
        f"purgatory: the Python package {missing.name!r} is not installed.\n"
        "The pipeline needs the extra [spark]: pip install 'request-purgatory[spark]'",
        file=sys.stderr,
    )
    return MISSING_TOOL


# -- the commands


def _workload(options: argparse.Namespace) -> int:
    from request_purgatory.errors import InvalidArgumentError
    from request_purgatory.pipeline.run import print_rows
    from request_purgatory.pipeline.spark.job_progress import step
    from request_purgatory.pipeline.traces.output_folder import output_folder
    from request_purgatory.pipeline.traces.trace_folder import make_workload_trace
    from request_purgatory.pipeline.traces.workload import CASES

    names = ("requests", "rate", "hosts", "keys", "shared_keys", "timeout_ms", "seed")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    workload = replace(CASES[options.case], **given)
    if options.requests_per_host is not None:
        if options.requests is not None:
            raise InvalidArgumentError(
                "requests_per_host",
                "given without requests, which follows",
                options.requests_per_host,
            )
        workload = replace(
            workload, requests=workload.hosts * options.requests_per_host, host_by_host=True
        )
    with (
        open_session() as (spark, console),
        output_folder(options.out, replace=options.force) as target,
    ):
        with step(console, spark, f"make workload {workload.name}: {workload.requests:,} requests"):
            trace = make_workload_trace(spark, workload, target)
        print_rows(console, trace)
    _next(console, options.out, f"replay {options.out} --out NAME")
    return OK


def _import(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.run import print_rows
    from request_purgatory.pipeline.spark.job_progress import step
    from request_purgatory.pipeline.traces.output_folder import output_folder
    from request_purgatory.pipeline.traces.trace_folder import import_trace

    settings = _import_settings(options)
    with (
        open_session() as (spark, console),
        output_folder(options.out, replace=options.force) as target,
    ):
        with step(console, spark, f"import {options.source}"):
            trace = import_trace(spark, options.source, target, settings)
        print_rows(console, trace)
        if not trace.manifest["rows"]["requests out"]:
            console.print(
                "[yellow]no request is left[/]: see the reasons above, and the rows in the folder rejects"
            )
    _next(console, options.out, f"replay {options.out} --out NAME")
    return OK


def _replay(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.outcomes.replay import ReplaySettings
    from request_purgatory.pipeline.run import print_replay_rate, replay_trace
    from request_purgatory.pipeline.spark.job_progress import step
    from request_purgatory.pipeline.traces.output_folder import output_folder
    from request_purgatory.pipeline.traces.trace_folder import Trace

    trace = Trace(options.trace)
    names = ("design", "tick_ms", "wheel_size", "purge_interval", "shards")
    settings = ReplaySettings(**{name: getattr(options, name) for name in names})
    with (
        open_session() as (spark, console),
        output_folder(options.out, replace=options.force) as target,
    ):
        with step(console, spark, f"replay {trace.name}, {settings.design}"):
            replayed = replay_trace(spark, trace, settings, target, options.max_worker_mb)
        print_replay_rate(console, spark, replayed)
    _next(console, options.out, f"analyze {options.trace} --replay {options.out} --out NAME")
    return OK


def _analyze(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.analysis.analysis import Analysis, Replayed, analyze
    from request_purgatory.pipeline.run import print_summary
    from request_purgatory.pipeline.spark.job_progress import step
    from request_purgatory.pipeline.traces.output_folder import output_folder
    from request_purgatory.pipeline.traces.trace_folder import Trace

    trace = Trace(options.trace)
    replays = [Replayed(path) for path in options.replay]
    for replayed in replays:
        replayed.settings  # noqa: B018 - tells of a folder that is none before any work is done
    with open_session() as (spark, console):
        with (
            output_folder(options.out, replace=options.force) as target,
            step(console, spark, f"analyze {trace.name}"),
        ):
            analyze(spark, trace, replays, target, options.timeouts, options.max_worker_mb)
        differing = print_summary(console, spark, [Analysis(options.out)])
    _next(console, options.out, f"report {options.out} --out report.html")
    return _agreed(console, differing)


def _report(options: argparse.Namespace) -> int:
    from request_purgatory.errors import InvalidArgumentError
    from request_purgatory.pipeline.analysis.analysis import Analysis
    from request_purgatory.pipeline.analysis.report import write_report
    from request_purgatory.pipeline.spark.job_progress import step
    from request_purgatory.pipeline.traces.output_folder import OutputExistsError
    from request_purgatory.published_benchmark.report_section import benchmark_section

    if not options.analysis and not options.bench:
        raise InvalidArgumentError(
            "analysis", "at least one folder, or --bench with one", options.analysis
        )
    analyses = [Analysis(path) for path in options.analysis]
    for analysis in analyses:
        analysis.manifest  # noqa: B018 - as above
    out = options.out.absolute()
    if out.is_dir():
        raise OutputExistsError(
            f"{options.out} is a folder, and the report is one file: choose another --out"
        )
    if out.exists() and not options.force:
        raise OutputExistsError(
            f"{options.out} exists already: choose another --out, or --force to replace it"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    try:
        with open_session() as (spark, console), step(console, spark, "write the report"):
            write_report(
                spark,
                analyses,
                partial,
                benchmarks=[benchmark_section(spark, path) for path in options.bench],
            ).replace(out)
    finally:
        partial.unlink(missing_ok=True)
    _print_report(console, options.out)
    return OK


def _run(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.outcomes.replay import DESIGNS, ReplaySettings
    from request_purgatory.pipeline.run import RunPlan, print_summary, run
    from request_purgatory.pipeline.traces.output_folder import output_folder
    from request_purgatory.pipeline.traces.workload import CASES

    # Without a trace the workloads are the job; with one, they are made only when they are asked
    # for.
    cases = (
        options.workload if options.workload is not None else ([] if options.trace else list(CASES))
    )
    plan = RunPlan(
        workloads=[replace(CASES[case], requests=options.requests) for case in cases],
        sources=options.trace,
        imports=_import_settings(options),
        replays=tuple(ReplaySettings(design=design) for design in DESIGNS),
        timeouts=options.timeouts,
        max_worker_mb=options.max_worker_mb,
    )
    out = options.out or Path("runs") / datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S")
    with open_session() as (spark, console):
        with output_folder(out, replace=options.force) as target:
            analyses = run(spark, plan, target, console)
        moved = [
            replace(analysis, path=out.resolve() / analysis.path.relative_to(target))
            for analysis in analyses
        ]
        differing = print_summary(console, spark, moved)
    _print_report(console, out / "report.html")
    return _agreed(console, differing)


def _simulate(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.outcomes.replay import ReplaySettings
    from request_purgatory.pipeline.simulation.cluster_simulation import (
        SimulationPlan,
        run_simulation,
    )
    from request_purgatory.pipeline.simulation.extrapolation import Target
    from request_purgatory.pipeline.simulation.printing import print_simulation
    from request_purgatory.pipeline.spark.job_progress import step
    from request_purgatory.pipeline.traces.output_folder import output_folder
    from request_purgatory.pipeline.traces.workload import CASES, cluster_workload

    names = (
        "hosts",
        "requests_per_host",
        "rate_per_host",
        "keys",
        "shared_keys",
        "timeout_ms",
        "median_ms",
        "p75_ms",
        "seed",
    )
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    settings = ("design", "tick_ms", "wheel_size", "purge_interval", "shards")
    plan = SimulationPlan(
        workload=cluster_workload(CASES[options.case], **given),
        settings=ReplaySettings(**{name: getattr(options, name) for name in settings}),
        target=Target(options.target_per_day, options.utilization, options.executor_cores),
        partitions=options.partitions,
        max_worker_mb=options.max_worker_mb,
    )
    sizes = plan.measure()
    what = f"simulate {options.hosts:,} hosts, {plan.workload.name}: {plan.workload.requests:,} requests"
    with open_session() as (spark, console):
        with (
            output_folder(options.out, replace=options.force) as target,
            step(console, spark, what),
        ):
            summary = run_simulation(spark, plan, sizes, target)
        print_simulation(console, summary)
    _made(console, options.out)
    return OK


def _archive(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.spark.archive import make_archive, usage

    console = open_console()
    with console.status("make the environment, and pack it"):
        archive = make_archive(options.out, source=options.source, replace=options.force)
    console.print(f"made [bold]{options.out}[/], {archive.size / 2**20:,.0f} MB", soft_wrap=True)
    console.print(usage(archive), soft_wrap=True, markup=False)
    return OK


def _bench(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.analysis.report import write_report
    from request_purgatory.pipeline.spark.job_progress import step
    from request_purgatory.pipeline.traces.output_folder import output_folder
    from request_purgatory.published_benchmark.report_section import (
        RATES,
        BenchPlan,
        benchmark_section,
        print_published,
        run_published,
    )

    plan = BenchPlan(
        options.case,
        options.design,
        options.rates or RATES,
        options.requests,
        rounds=options.rounds,
    )
    with output_folder(options.out, replace=options.force) as target:
        # Before Spark is started, which would take part in what is measured.
        run_published(plan, target, open_console())
        with (
            open_session() as (spark, console),
            step(console, spark, "summarize, and write the report"),
        ):
            section = benchmark_section(spark, target)
            write_report(spark, [], target / "report.html", benchmarks=[section])
    print_published(open_console(), section)
    _print_report(open_console(), options.out / "report.html")
    return OK


# -- what they share


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "workload": _workload,
    "import": _import,
    "replay": _replay,
    "analyze": _analyze,
    "report": _report,
    "stream": stream,
    "simulate": _simulate,
    "archive": _archive,
    "bench": _bench,
}


def _next(console: Console, made: Path, command: str) -> None:
    from rich.markup import escape

    console.print(
        f"made [bold]{escape(str(made))}[/]; next: purgatory {escape(command)}", soft_wrap=True
    )


def _made(console: Console, made: Path) -> None:
    from rich.markup import escape

    console.print(f"made [bold]{escape(str(made))}[/]", soft_wrap=True)


def _print_report(console: Console, made: Path) -> None:
    from rich.markup import escape

    console.print(f"report: [bold]{escape(str(made))}[/]", soft_wrap=True)


def _agreed(console: Console, differing: int) -> int:
    if not differing:
        return OK
    console.print(
        f"[red]{differing:,} rows of the replays differ from the batch outcomes[/]: see the table agreement"
    )
    return OUTCOMES_DIFFER


def _import_settings(options: argparse.Namespace) -> ImportSettings:
    from request_purgatory.pipeline.traces.trace_folder import ImportSettings, Mark

    return ImportSettings(
        format=options.format,
        columns=dict(options.map),
        time_unit=options.time_unit,
        timeout_ms=options.timeout_ms,
        keys=options.keys,
        ms_per_context_token=options.ms_per_context_token,
        ms_per_generated_token=options.ms_per_generated_token,
        marks=tuple(Mark.parse(text) for text in options.mark),
    )


if __name__ == "__main__":
    sys.exit(main())
