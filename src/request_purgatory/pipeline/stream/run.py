"""Running a stream from one start to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.spark.session import stream_settings
from request_purgatory.pipeline.spark.workers import require_stream_helper, require_workers
from request_purgatory.pipeline.stream.checkpoint import require_same
from request_purgatory.pipeline.stream.endpoints import Endpoints, quiet_ticks, told_ticks
from request_purgatory.pipeline.stream.job import StreamSettings, delayed_operations
from request_purgatory.pipeline.stream.progress import BatchProgress, ProgressListener
from request_purgatory.pipeline.traces.importers.delimited import written_path

#: How soon a request to stop is heard.
_LOOK_EVERY_S = 0.5

_LISTENER_LIMIT_S = 10.0
#: Later than any deadline: requests arrive until 2199 (`imported.LAST_US`) and wait for 25 days at
#: most.
_END = datetime(2201, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class StreamPlan:
    """What a stream does.

    Attributes:
        endpoints: its inputs and its output.
        checkpoint: the folder that makes it go on where it was stopped.
        settings: shards and times.
        every_s: seconds from one micro-batch to the next; 0 as soon as the one before is done. Not
            with `finish` or `available`.
        available: take what is there now, in micro-batches, and stop.
        finish: as `available`, and settle all that waits then, as nothing more is to come.
        idle_s: for inputs whose times are the present: seconds after which nothing older is
            expected from a quiet input.
    """

    endpoints: Endpoints
    checkpoint: Path
    settings: StreamSettings = field(default_factory=StreamSettings)
    every_s: float = 0.0
    available: bool = False
    finish: bool = False
    idle_s: float | None = None

    def __post_init__(self) -> None:
        if self.every_s < 0:
            raise InvalidArgumentError("every_s", "at least 0 seconds", self.every_s)
        if self.idle_s is not None and self.idle_s < 0:
            raise InvalidArgumentError("idle_s", "at least 0 seconds", self.idle_s)
        if not (self.finish or self.available):
            return
        if self.idle_s is not None:
            raise InvalidArgumentError(
                "idle_s", "for a stream that goes on, without finish or available", self.idle_s
            )
        for source in (self.endpoints.requests, self.endpoints.events):
            if source.endless:
                raise InvalidArgumentError(
                    "an input", "one that has an end, with finish or available", source
                )


def _never() -> bool:
    return False


def run_stream(
    spark: SparkSession,
    plan: StreamPlan,
    told: Callable[[BatchProgress], object],
    stopped: Callable[[], object] = _never,
) -> None:
    """Run a stream until its input ends (`available`, `finish`), it is to stop, or it fails.

    Args:
        told: called with every batch's progress, on a thread of Spark's.
        stopped: asked twice a second; once it says something true, the query is stopped, in the
            middle of a batch. The next start does that batch again.

    Raises:
        CheckpointError, EndpointError, SchemaError, TraceFormatError, WorkersError: before any row
            is read.
        StreamingQueryException: a batch failed; what was committed before it stays, and the next
            start goes on from there.
    """
    # Both say what is wrong with inputs and output before the checkpoint is made.
    described = plan.endpoints.described(spark)
    plan.endpoints.read(spark)
    ticks = "told" if plan.idle_s is None else "the clock's"
    require_same(plan.checkpoint, plan.settings, described | {"ticks": ticks})
    require_workers(spark, plan.checkpoint)
    require_stream_helper(spark)
    stream_settings(spark)
    listener = ProgressListener(told)
    spark.streams.addListener(listener)
    try:
        _run_once(spark, plan, listener, stopped)
        if plan.finish and not stopped():
            (plan.checkpoint / "ticks" / "end.json").write_text(
                json.dumps({"at": _END.isoformat()}) + "\n", encoding="utf-8"
            )
            _run_once(spark, plan, listener, stopped)
    finally:
        spark.streams.removeListener(listener)


def _run_once(
    spark: SparkSession, plan: StreamPlan, listener: ProgressListener, stopped: Callable[[], object]
) -> None:
    requests, events = plan.endpoints.read(spark)
    ticks = (
        told_ticks(spark, plan.checkpoint / "ticks")
        if plan.idle_s is None
        else quiet_ticks(spark, plan.idle_s)
    )
    results = delayed_operations(requests, events, settings=plan.settings, ticks=ticks)
    trigger: dict[str, Any] = {"processingTime": f"{plan.every_s} seconds"}
    if plan.available or plan.finish:
        trigger = {"availableNow": True}
    writer = plan.endpoints.out.write(results).queryName("purgatory")
    query = (
        writer.option("checkpointLocation", written_path(plan.checkpoint.resolve()))
        .trigger(**trigger)
        .start()
    )
    try:
        # Not in one call: a signal's handler would wait for its end.
        while not stopped() and not query.awaitTermination(_LOOK_EVERY_S):
            continue
    finally:
        query.stop()
        # Listeners hear of batches later than the query ends.
        listener.ended.wait(_LISTENER_LIMIT_S)
