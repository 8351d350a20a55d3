"""Small traces, replayed and analysed, for the tests of the later parts."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from request_purgatory.pipeline.analysis import Analysis, Replayed, analyze
from request_purgatory.pipeline.outputs import write_json
from request_purgatory.pipeline.replay import DESIGNS, ReplaySettings
from request_purgatory.pipeline.run import replay_trace
from request_purgatory.pipeline.schema import EVENTS, REQUESTS
from request_purgatory.pipeline.traces import Trace
from tests.model.naive_trace import TraceEvent, TraceRequest
from tests.pipeline.trace_strategies import events_table, requests_table


def made(folder: Path) -> Path:
    """The folder, new."""
    folder.mkdir(parents=True)
    return folder


def write_trace(
    spark: SparkSession, folder: Path, requests: list[TraceRequest], events: list[TraceEvent], host: str = "h", name: str = "tiny"
) -> Trace:
    """A trace folder of one host."""
    made(folder)
    spark.createDataFrame(requests_table(requests, host), REQUESTS).write.parquet(str(folder / "requests"))
    spark.createDataFrame(events_table(events, host), EVENTS).write.parquet(str(folder / "events"))
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
    return Trace(folder)


def replays_of(spark: SparkSession, trace: Trace, folder: Path) -> list[Replayed]:
    """The trace through both designs."""
    return [replay_trace(spark, trace, ReplaySettings(design=design), made(folder / design)) for design in DESIGNS]


def analysis_of(spark: SparkSession, trace: Trace, folder: Path) -> Analysis:
    """The trace through both designs, and analysed."""
    return analyze(spark, trace, replays_of(spark, trace, folder / "replays"), made(folder / "analysis"), [1, 3, 1000])
