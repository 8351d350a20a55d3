"""The commands that analyze traces and report, and the one that does the whole pipeline."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.markup import escape

from purgatory_command_line.command import command
from purgatory_command_line.converters import LocalPath
from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.output import Output, OutputOptions
from purgatory_command_line.settings_options import FieldsOf, Given
from purgatory_spark._analysis.analysis import analyze
from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._analysis.findings import find
from purgatory_spark._analysis.replay_folder import ReplayFolder
from purgatory_spark._analysis.report import write_report
from purgatory_spark._analysis.sentences import print_sentence
from purgatory_spark._analysis.small_tables import SmallTables
from purgatory_spark._cli import session
from purgatory_spark._cli.failures import describe_failure
from purgatory_spark._cli.import_options import IMPORT_OPTIONS, ImportOptions
from purgatory_spark._cli.options import Force, LocalPaths, Timeouts, count, print_made
from purgatory_spark._outcomes.replay import DESIGNS, ReplaySettings
from purgatory_spark._output_folder import OutputExistsError, output_folder
from purgatory_spark._run import RunPlan, print_findings, print_summary, run
from purgatory_spark._spark.job_progress import step
from purgatory_spark._spark.small_files import are_small
from purgatory_spark._traces.import_settings import ImportSettings
from purgatory_spark._traces.trace_folder import TraceFolder
from purgatory_spark._traces.trace_reader import check_source
from purgatory_spark._traces.workload import CASES, Workload
from request_purgatory.errors import InvalidArgumentError

_NO_IMPORT = ImportSettings()
_AnalysisOptions = Annotated[
    Given,
    FieldsOf(
        RunPlan,
        only=("timeouts", "max_worker_mb"),
        changes={"timeouts": Timeouts, "max_worker_mb": Parameter(converter=count)},
    ),
]


@command(describe_failure)
def run_all(
    *,
    trace: LocalPaths = None,
    workload: Annotated[
        list[str] | None, Parameter(choices=tuple(CASES), consume_multiple=(1, None))
    ] = None,
    requests: Annotated[Given, FieldsOf(Workload, only=("requests",))],
    design: Annotated[
        list[str] | None, Parameter(choices=DESIGNS, consume_multiple=(1, None))
    ] = None,
    out: LocalPath | None = None,
    force: Force = False,
    limits: _AnalysisOptions,
    imports: ImportOptions,
    output: OutputOptions,
) -> ExitCode:
    """Make or import traces, replay them, analyze them, and write one report.

    Args:
        trace: A trace to import; may be repeated.
        workload: Published workloads to make; both unless given, or none with `--trace`.
        requests: The number of requests in each workload.
        design: The designs of purgatories to replay the traces through; both unless given.
        out: The run's folder; a folder in `runs/`, named by the time, unless given.
        force: See `Force`.
        limits: The what-if timeouts and the memory limit.
        imports: How to import the traces.
        output: See `Output`.
    """
    sources = trace or []
    if not sources:
        _require_no_import_options(imports)
    # With a trace to import, published workloads are made only on request.
    cases = workload or ([] if sources else list(CASES))
    plan = RunPlan(
        workloads=[replace(CASES[case], **requests) for case in cases],
        sources=sources,
        imports=imports,
        replays=tuple(ReplaySettings(design=name) for name in dict.fromkeys(design or DESIGNS)),
        **limits,
    )
    for source in sources:
        check_source(source, imports)
    out = out or Path("runs") / datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S")
    made = sum(workload.requests for workload in plan.workloads)
    small = made <= session.SMALL_REQUESTS and are_small(*sources, imports.events)
    with output_folder(out, replace=force) as folder, session.open_session(small=small) as spark:
        analyses = run(spark, plan, folder, output.console)
        differing = print_summary(output.console, analyses)
    moved = [Analysis(out.resolve() / analysis.path.relative_to(folder)) for analysis in analyses]
    _print_report(
        output,
        out / "report.html",
        {
            "path": str(out),
            "differing": differing,
            "analyses": [_analysis_result(analysis) for analysis in moved],
        },
    )
    return _agreement(output, differing)


def _require_no_import_options(imports: ImportSettings) -> None:
    """Check that nothing says how to import a trace, as there is none."""
    for setting in fields(ImportSettings):
        value = getattr(imports, setting.name)
        if value != getattr(_NO_IMPORT, setting.name):
            raise InvalidArgumentError(
                IMPORT_OPTIONS.get(setting.name, setting.name), "used with --trace", value
            )


@command(describe_failure)
def analyze_trace(
    trace: LocalPath,
    /,
    *,
    replay: LocalPaths = None,
    out: LocalPath,
    limits: _AnalysisOptions,
    force: Force = False,
    output: OutputOptions,
) -> ExitCode:
    """Compute a trace's outcomes, compare replays with them, and what other timeouts would do.

    Args:
        trace: A trace folder.
        replay: A replay of the trace; may be repeated.
        out: The analysis folder to make.
        limits: The what-if timeouts and the memory limit.
        force: See `Force`.
        output: See `Output`.
    """
    opened = TraceFolder(trace)
    opened.require_requests()
    replays = [ReplayFolder(path) for path in replay or []]
    for replayed in replays:
        replayed.settings  # noqa: B018 - raises for a folder that is not a replay
    small = are_small(trace, *(replay or []))
    with output_folder(out, replace=force) as folder, session.open_session(small=small) as spark:
        with step(output.console, spark, f"analyze {opened.name}"):
            analysis = analyze(spark, opened, replays, folder, **limits)
        differing = print_summary(output.console, [analysis])
    made = _analysis_result(Analysis(out)) | {"differing": differing}
    print_made(output, out, following=f"report {out} --out report.html", result=made)
    return _agreement(output, differing)


@command(describe_failure)
def report(
    analysis: LocalPaths = None,
    /,
    *,
    out: LocalPath,
    force: Force = False,
    output: OutputOptions,
) -> ExitCode:
    """Write one HTML file with the figures and tables of analyses.

    Args:
        analysis: Analysis folders.
        out: The HTML file to write.
        force: See `Force`.
        output: See `Output`.
    """
    analyses = [Analysis(path) for path in analysis or []]
    if not analyses:
        raise InvalidArgumentError("analysis", "at least one folder", analyses)
    for analyzed in analyses:
        analyzed.manifest  # noqa: B018 - raises for a folder that is not an analysis
    _require_free_file(out, force=force)
    partial = out.absolute().with_name(f".{out.name}.partial")
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_report(analyses, partial).replace(out)
    finally:
        partial.unlink(missing_ok=True)
    for analyzed in analyses:
        print_findings(output.console, SmallTables(analyzed))
    _print_report(output, out, {"analyses": list(map(_analysis_result, analyses))})
    return ExitCode.OK


def _require_free_file(out: Path, *, force: bool) -> None:
    if out.is_dir():
        raise OutputExistsError(
            f"{out} is a folder, and the report is one file: choose another --out"
        )
    if out.exists() and not force:
        raise OutputExistsError(
            f"{out} exists already: choose another --out, or replace it with --force"
        )


def _analysis_result(analysis: Analysis) -> dict[str, Any]:
    """Return what the JSON document has of an analysis."""
    tables = SmallTables(analysis)
    findings = find(tables)
    result = {
        "path": str(analysis.path),
        "trace": tables.manifest["trace"]["name"],
        "recommended_timeout_ms": findings.timeout.timeout_ms,
        "findings": findings.sentences,
        "summary": tables.overall,
    }
    result |= {"agreement": tables.agreement} if tables.agreement else {}
    return result | ({"marks": tables.marks} if tables.marks else {})


def _print_report(output: Output, path: Path, result: dict[str, Any]) -> None:
    output.print_result({"report": str(path), **result})
    output.console.print(f"report: [bold]{escape(str(path))}[/]", soft_wrap=True)


def _agreement(output: Output, differing: int) -> ExitCode:
    """Return OK, or OUTCOMES_DIFFER after saying so."""
    if not differing:
        return ExitCode.OK
    print_sentence(
        output.console,
        f"{differing:,} requests of the replays ended in another way than computed: "
        "see the table agreement",
        style="red",
    )
    return ExitCode.OUTCOMES_DIFFER
