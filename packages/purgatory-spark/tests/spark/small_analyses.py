"""Small traces and their analyses, for tests of analyses and reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from purgatory_spark._analysis.analysis import analyze
from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._analysis.replay_folder import replay_trace
from purgatory_spark._outcomes.replay import DESIGNS, ReplaySettings
from purgatory_spark._output_folder import write_json
from purgatory_spark._traces.trace_folder import TraceFolder
from tests.spark.naive_trace import TraceEvent, TraceRequest
from tests.spark.trace_folders import write_recorded
from tests.spark.trace_strategies import events_table, requests_table


def new_folder(folder: Path) -> Path:
    """Make a folder and return it."""
    folder.mkdir(parents=True)
    return folder


def write_trace(
    folder: Path,
    requests: list[TraceRequest],
    events: list[TraceEvent],
    host: str = "h",
    name: str = "tiny",
) -> TraceFolder:
    """Write the trace folder of one host, without Spark."""
    write_recorded(new_folder(folder), requests_table(requests, host), events_table(events, host))
    manifest = {
        "name": name,
        "source": name,
        "format": "recorded",
        "parameters": {},
        "marks": [{"at": "1970-01-01T00:00:00.002+00:00", "label": "two milliseconds"}],
        "rows": {"rejected": 0, "requests out": len(requests), "events out": len(events)},
        "rejected": {},
        "notes": [],
    }
    write_json(folder / "trace.json", manifest)
    return TraceFolder(folder)


def replay_and_analyze(
    spark: SparkSession,
    trace: TraceFolder,
    folder: Path,
    designs: Sequence[str] = DESIGNS,
    timeouts: Sequence[int] | None = (1, 3, 1000),
) -> Analysis:
    """Replay a trace and analyze it.

    Args:
        spark: The session.
        trace: The trace.
        folder: The folder to make `replays/DESIGN/` and `analysis/` in.
        designs: The designs to replay it in.
        timeouts: What-if timeouts in ms; chosen for the trace if None.

    Returns:
        The analysis.
    """
    settings = [ReplaySettings(design=design) for design in designs]
    replays = [
        replay_trace(spark, trace, chosen, new_folder(folder / "replays" / chosen.design))
        for chosen in settings
    ]
    return analyze(
        spark, trace, replays, new_folder(folder / "analysis"), list(timeouts) if timeouts else None
    )
