"""The whole pipeline: make or import traces, replay them in both designs, analyze, and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from purgatory_spark._analysis.analysis import analyze
from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._analysis.findings import find
from purgatory_spark._analysis.replay_folder import ReplayFolder, replay_trace_in_designs
from purgatory_spark._analysis.report import write_report
from purgatory_spark._analysis.sentences import print_sentence
from purgatory_spark._analysis.small_tables import SmallTables
from purgatory_spark._analysis.units import common_unit, format_in, format_share
from purgatory_spark._outcomes.replay import ReplaySettings
from purgatory_spark._output_folder import new_folder, write_json
from purgatory_spark._rows.host_sizes import MAX_WORKER_MB
from purgatory_spark._spark.job_progress import step
from purgatory_spark._traces.trace_folder import TraceFolder, import_trace, make_workload_trace
from purgatory_spark._traces.trace_reader import ImportSettings
from purgatory_spark._traces.workload import Workload


@dataclass(frozen=True)
class RunPlan:
    """The inputs and settings of a run.

    Attributes:
        timeouts: What-if timeouts in ms; chosen for each trace unless given.
        max_worker_mb: Memory limit for one host in a Python worker.
    """

    workloads: list[Workload]
    sources: list[Path]
    imports: ImportSettings = field(default_factory=ImportSettings)
    replays: tuple[ReplaySettings, ...] = ()
    timeouts: list[int] | None = None
    max_worker_mb: int = MAX_WORKER_MB


def run(spark: SparkSession, plan: RunPlan, target: Path, console: Console) -> list[Analysis]:
    """Carry out a plan, and write its traces, replays, analyses and report into an empty folder."""
    sources: list[Workload | Path] = [*plan.workloads, *plan.sources]
    names = _folder_names(
        [
            source.name if isinstance(source, Workload) else source.resolve().name
            for source in sources
        ]
    )
    analyses = []
    for name, source in zip(names, sources, strict=True):
        folder = new_folder(target / "traces" / name)
        if isinstance(source, Workload):
            with step(console, spark, f"make workload {name}: {source.requests:,} requests"):
                trace = make_workload_trace(spark, source, folder)
        else:
            with step(console, spark, f"import {source}"):
                trace = import_trace(spark, source, folder, plan.imports)
        print_row_counts(console, trace)
        folders = {
            new_folder(target / "replays" / name / settings.design): settings
            for settings in plan.replays
        }
        designs = " and ".join(settings.design for settings in plan.replays)
        what = f"replay {name}, {designs}, and analyze it" if designs else f"analyze {name}"
        with step(console, spark, what):
            replays = _replays(spark, trace, folders, plan.max_worker_mb)
            folder = new_folder(target / "analyses" / name)
            analyses.append(
                analyze(spark, trace, replays, folder, plan.timeouts, plan.max_worker_mb)
            )
    with step(console, spark, "write the report"):
        write_report(analyses, target / "report.html")
    write_json(target / "run.json", {"traces": names})
    return analyses


def _replays(
    spark: SparkSession,
    trace: TraceFolder,
    designs: Mapping[Path, ReplaySettings],
    max_worker_mb: int,
) -> Iterator[ReplayFolder]:
    """Make replays when the first one is asked for."""
    if designs:
        yield from replay_trace_in_designs(spark, trace, designs, max_worker_mb)


def print_replay_rate(console: Console, spark: SparkSession, folder: ReplayFolder) -> None:
    """Print the rate of a replay, without the time for reading, shuffling and writing."""
    sums = folder.table(spark, "hosts").agg(F.sum("requests"), F.sum("task_seconds")).first()
    assert sums is not None
    requests, seconds = sums
    rate = f"{requests / seconds:,.0f} requests/s on a core"
    sentence = f"{requests:,} requests in {seconds:.1f} s of tasks: {rate}"
    print_sentence(console, sentence, indent="  ", style="dim")


def print_row_counts(console: Console, trace: TraceFolder) -> None:
    rows = ", ".join(f"{count:,} {name}" for name, count in trace.manifest["rows"].items())
    print_sentence(console, rows, indent="  ", style="dim")
    for reason, count in trace.manifest["rejected"].items():
        console.print(f"  [yellow]rejected[/] {count:,}: {escape(reason)}")
    for note in trace.manifest["notes"]:
        print_sentence(console, note, indent="  ", style="dim")


def print_summary(console: Console, analyses: list[Analysis]) -> int:
    """Print how the requests ended, and how the replays did; return how many outcomes differ."""
    small = [SmallTables(analysis) for analysis in analyses]
    console.print(_outcomes_table(small))
    differing = 0
    if any(tables.designs for tables in small):
        replays = _table(
            "Replays", "trace", "design", "peak pending", "purges", "task time", "differ"
        )
        for tables in small:
            differ = {row["design"]: row["differing"] for row in tables.agreement}
            for row in tables.designs:
                differing += differ[row["design"]]
                replays.add_row(
                    _name(tables),
                    escape(row["design"]),
                    f"{row['peak_pending']:,}",
                    f"{row['purges']:,}",
                    f"{row['task_seconds']:.1f} s",
                    f"{differ[row['design']]:,}",
                )
        console.print(replays)
        print_sentence(
            console,
            "peak pending: on one host; differ: requests that ended in another way than computed",
            style="dim",
        )
    for tables in small:
        print_findings(console, tables)
    return differing


def _outcomes_table(small: list[SmallTables]) -> Table:
    unit, unit_ms = common_unit(
        tables.overall[name] for tables in small for name in ("p50_ms", "p99_ms")
    )
    waits = (f"p50 ({unit})", f"p99 ({unit})")
    table = _table("How the requests ended", "trace", "requests", "expired", "share", *waits)
    for tables in small:
        overall = tables.overall
        table.add_row(
            _name(tables),
            f"{overall['requests']:,}",
            f"{overall['expired']:,}",
            format_share(overall["expired_share"]),
            format_in(overall["p50_ms"], unit_ms),
            format_in(overall["p99_ms"], unit_ms),
        )
    return table


def _table(title: str, *headings: str) -> Table:
    """Return a table in which names are broken where there is no room, and no numbers."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in headings:
        if heading in ("trace", "design"):
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    return table


def _name(tables: SmallTables) -> str:
    return escape(tables.manifest["trace"]["name"])


def print_findings(console: Console, tables: SmallTables) -> None:
    findings = find(tables)
    name = tables.manifest["trace"]["name"]
    print_sentence(console, f"{name}: {findings.timeout.reason}", style="bold")
    for sentence in findings.sentences[1:]:
        print_sentence(console, sentence, indent="  ")


def _folder_names(names: list[str]) -> list[str]:
    """Return the names, made unique by a number: a second `low` becomes `low-2`."""
    taken: set[str] = set()
    unique_names = []
    for name in names:
        number, unique = 1, name
        while unique in taken:
            number += 1
            unique = f"{name}-{number}"
        taken.add(unique)
        unique_names.append(unique)
    return unique_names
