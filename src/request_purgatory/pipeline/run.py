"""The whole pipeline in one go: traces, replays in both designs, analyses, one report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from request_purgatory.pipeline.analysis.analysis import (
    Analysis,
    Replayed,
    analyze,
    write_replay,
)
from request_purgatory.pipeline.analysis.report import write_report
from request_purgatory.pipeline.analysis.units import ms_text, share_text
from request_purgatory.pipeline.outcomes.replay import ReplaySettings, replay
from request_purgatory.pipeline.spark.host_sizes import MAX_WORKER_MB, REPLAY, require_hosts_fit
from request_purgatory.pipeline.spark.job_progress import step
from request_purgatory.pipeline.traces.output_folder import write_json
from request_purgatory.pipeline.traces.trace_folder import (
    ImportSettings,
    Trace,
    import_trace,
    make_workload_trace,
)
from request_purgatory.pipeline.traces.workload import Workload


@dataclass(frozen=True)
class RunPlan:
    """What a run does.

    Attributes:
        workloads: synthetic traces to make.
        sources: traces to import.
        imports: how to read them.
        replays: the purgatories that each trace is replayed through.
        timeouts: for what-if, in ms; chosen by trace if None.
        max_worker_mb: what one host may take in a Python worker.
    """

    workloads: list[Workload]
    sources: list[Path]
    imports: ImportSettings = field(default_factory=ImportSettings)
    replays: tuple[ReplaySettings, ...] = ()
    timeouts: list[int] | None = None
    max_worker_mb: int = MAX_WORKER_MB


def run(spark: SparkSession, plan: RunPlan, target: Path, console: Console) -> list[Analysis]:
    """Carry out the plan into `target`, which exists and is empty.

    `traces/`, `replays/`, `analyses/` and `report.html`.
    """
    names = _folder_names(
        [workload.name for workload in plan.workloads]
        + [source.resolve().name for source in plan.sources]
    )
    analyses = []
    sources: list[Workload | Path] = [*plan.workloads, *plan.sources]
    for name, source in zip(names, sources, strict=True):
        folder = _made(target / "traces" / name)
        if isinstance(source, Workload):
            with step(console, spark, f"make workload {name}: {source.requests:,} requests"):
                trace = make_workload_trace(spark, source, folder)
        else:
            with step(console, spark, f"import {source}"):
                trace = import_trace(spark, source, folder, plan.imports)
        print_rows(console, trace)
        replays = []
        for settings in plan.replays:
            with step(console, spark, f"replay {name}, {settings.design}"):
                replays.append(
                    replay_trace(
                        spark,
                        trace,
                        settings,
                        _made(target / "replays" / name / settings.design),
                        plan.max_worker_mb,
                    )
                )
        with step(console, spark, f"analyze {name}"):
            folder = _made(target / "analyses" / name)
            analyses.append(
                analyze(spark, trace, replays, folder, plan.timeouts, plan.max_worker_mb)
            )
    with step(console, spark, "write the report"):
        write_report(spark, analyses, target / "report.html")
    write_json(target / "run.json", {"traces": names})
    return analyses


def replay_trace(
    spark: SparkSession,
    trace: Trace,
    settings: ReplaySettings,
    target: Path,
    max_worker_mb: int = MAX_WORKER_MB,
) -> Replayed:
    """Replay a trace into a replay folder.

    TraceFormatError if it has no requests, HostTooLargeError if a host is too large.
    """
    trace.require_requests()
    requests, events = trace.requests(spark), trace.events(spark)
    require_hosts_fit(requests, events, REPLAY, max_worker_mb)
    replayed = replay(requests, events, settings)
    return write_replay(replayed, settings.parameters(), target)


def print_replay_rate(console: Console, spark: SparkSession, replayed: Replayed) -> None:
    """Tell how fast the replay itself was, without reading, shuffling and writing."""
    sums = replayed.table(spark, "hosts").agg(F.sum("requests"), F.sum("task_seconds")).first()
    assert sums is not None
    rate = f"{sums[0]:,} requests in {sums[1]:.1f} s of tasks: {sums[0] / sums[1]:,.0f} requests/s on a core"
    console.print(f"  [dim]{rate}[/]")


def print_rows(console: Console, trace: Trace) -> None:
    """Tell what came in, what was rejected and why, and what went out."""
    rows = ", ".join(f"{count:,} {name}" for name, count in trace.manifest["rows"].items())
    console.print(f"  [dim]{escape(rows)}[/]")
    for reason, count in trace.manifest["rejected"].items():
        console.print(f"  [yellow]rejected[/] {count:,}: {escape(reason)}")
    for note in trace.manifest["notes"]:
        console.print(f"  [dim]{escape(note)}[/]")


def print_summary(console: Console, spark: SparkSession, analyses: list[Analysis]) -> int:
    """The run in a table; how many rows of all replays differ from the batch outcomes."""
    table = Table(title="How the requests ended", box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("trace", no_wrap=True, max_width=24)
    table.add_column("design", no_wrap=True)
    for heading in ("requests", "expired", "p50", "p99", "peak", "purges", "task time", "differ"):
        table.add_column(heading, justify="right", no_wrap=True)
    differing = 0
    for analysis in analyses:
        manifest = analysis.manifest
        name = escape(manifest["trace"]["name"])
        overall = analysis.rows("summary", dimension="all")[0]
        common = [f"{overall['requests']:,}", share_text(overall["expired_share"])]
        common += [ms_text(overall["p50_ms"]), ms_text(overall["p99_ms"])]
        if "hosts" not in manifest["tables"]:
            table.add_row(name, "batch", *common, "", "", "", "")
            continue
        differ = {row["design"]: row["differing"] for row in analysis.rows("agreement")}
        for row in _by_design(analysis, spark):
            differing += differ[row["design"]]
            table.add_row(
                name,
                row["design"],
                *common,
                f"{row['peak_pending']:,}",
                f"{row['purges']:,}",
                f"{row['task_seconds']:.1f} s",
                f"{differ[row['design']]:,}",
            )
    console.print(table)
    console.print(
        "[dim]peak: most pending on one host; differ: rows of the replay that are not as the batch computes them[/]"
    )
    for analysis in analyses:
        if "marks" in analysis.manifest["tables"]:
            for mark in analysis.rows("marks"):
                share = share_text(mark["expired_share"])
                console.print(
                    f"{mark['side']} {escape(mark['label'])}: {share} of {mark['requests']:,} requests expired"
                )
    return differing


def _by_design(analysis: Analysis, spark: SparkSession) -> list[Row]:
    hosts = analysis.table(spark, "hosts").groupBy("design")
    sums = hosts.agg(
        F.sum("purges").alias("purges"),
        F.sum("task_seconds").alias("task_seconds"),
        F.max("peak_pending").alias("peak_pending"),
    )
    return sums.orderBy(F.desc("design")).collect()


def _folder_names(names: list[str]) -> list[str]:
    """The names, each once: a second `low` becomes `low-2`."""
    taken: set[str] = set()
    chosen = []
    for name in names:
        number, unique = 1, name
        while unique in taken:
            number += 1
            unique = f"{name}-{number}"
        taken.add(unique)
        chosen.append(unique)
    return chosen


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
