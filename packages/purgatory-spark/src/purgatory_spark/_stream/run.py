"""Running a stream from a start to its end."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from purgatory_spark._output_folder import write_text_durably
from purgatory_spark._spark import session
from purgatory_spark._spark.files import spark_write_path
from purgatory_spark._spark.workers import require_driver_python, require_workers
from purgatory_spark._stream.checkpoint import (
    CLOCK_TICKS,
    FOLDER_TICKS,
    require_compatible_checkpoint,
)
from purgatory_spark._stream.endpoints.endpoint import Endpoints
from purgatory_spark._stream.endpoints.ticks import clock_ticks, folder_ticks
from purgatory_spark._stream.job import StreamSettings, delayed_operations
from purgatory_spark._stream.progress import BatchProgress, ProgressListener
from request_purgatory.errors import InvalidArgumentError

#: Seconds between two calls of `should_stop`.
_POLL_INTERVAL = 0.5
#: Seconds to wait for the progress of the last batches, which Spark reports after the query's end.
_LISTENER_TIMEOUT = 10.0
#: Later than any deadline: requests arrive until 2199 (`checks.MAX_TIME_US`) and wait for 25
#: days at most.
_END_OF_TIME = datetime(2201, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class StreamPlan:
    """What a stream reads and writes, and when it ends.

    Attributes:
        endpoints: the inputs and the output.
        checkpoint: the folder with the stream's position and state, from which the next start
            resumes. It is created if it does not exist.
        settings: shards and times.
        trigger_interval: seconds from the start of one micro-batch to the start of the next. 0
            starts the next one as soon as one is done. Ignored with `available_now` and `drain`.
        available_now: process the input that is available at the start, and end. Requests that are
            still pending stay in the checkpoint.
        drain: process the input that is available at the start, end all pending requests, and end.
            No further rows can be added afterwards: they would be late.
        idle_timeout: seconds after which no older rows of a quiet input are expected. For inputs
            whose times are the present. Without it, a quiet input holds the watermark back.
    """

    endpoints: Endpoints
    checkpoint: Path
    settings: StreamSettings = field(default_factory=StreamSettings)
    trigger_interval: float = 0.0
    available_now: bool = False
    drain: bool = False
    idle_timeout: float | None = None

    def __post_init__(self) -> None:
        if self.trigger_interval < 0:
            raise InvalidArgumentError(
                "trigger_interval", "at least 0 seconds", self.trigger_interval
            )
        if self.idle_timeout is not None and self.idle_timeout < 0:
            raise InvalidArgumentError("idle_timeout", "at least 0 seconds", self.idle_timeout)
        if not (self.drain or self.available_now):
            return
        if self.idle_timeout is not None:
            raise InvalidArgumentError(
                "idle_timeout", "left out with available_now or drain", self.idle_timeout
            )
        for name in ("requests", "events"):
            source = getattr(self.endpoints, name)
            if source.unbounded:
                raise InvalidArgumentError(
                    name, "an input that has an end, with available_now or drain", source
                )


class DrainError(RuntimeError):
    """A drained stream has not ended all of its requests; the message says what to do."""


def _never() -> bool:
    return False


def run_stream(
    spark: SparkSession,
    plan: StreamPlan,
    on_batch: Callable[[BatchProgress], object],
    should_stop: Callable[[], object] = _never,
) -> None:
    """Run a stream until its input ends (`available_now`, `drain`), it is stopped, or it fails.

    The query runs in a session of its own beside the given one, with its settings and those of
    streams. So the given session needs no settings, and keeps those that it has.

    Args:
        spark: a session of the application that runs the stream.
        plan: what to run.
        on_batch: called with every batch's progress, on a thread of Spark's.
        should_stop: called twice a second; a true result stops the query, even in the middle of a
            batch. The next start repeats that batch.

    Raises:
        CheckpointError: the checkpoint was made for another stream. Like the next four, before any
            row is read.
        EndpointError: an input or output can't be used.
        SchemaError: an input has other columns.
        TraceFormatError: an input folder does not exist.
        WorkersError: Spark's workers can't run the stream.
        DrainError: with `drain`, requests are still pending at the end.
        StreamingQueryException: a batch failed. What was committed before remains, and the next
            start resumes from there.
    """
    # Both check inputs and output, and must do so before the checkpoint is created.
    identities = plan.endpoints.identities(spark)
    plan.endpoints.read(spark)
    ticks = FOLDER_TICKS if plan.idle_timeout is None else CLOCK_TICKS
    even_shards = require_compatible_checkpoint(
        plan.checkpoint, plan.settings, identities | {"ticks": ticks}
    )
    require_workers(spark, plan.checkpoint)
    require_driver_python(spark)
    own = session.session_beside(spark, session.local_checkpoint_settings(spark))
    session.apply_stream_settings(own, shards=plan.settings.shards)
    listener = ProgressListener(on_batch)
    own.streams.addListener(listener)
    try:
        _run_query(own, plan, listener, should_stop, even_shards=even_shards)
        if plan.drain and not should_stop():
            _end_time(plan)
            watermark = _run_query(own, plan, listener, should_stop, even_shards=even_shards)
            if not should_stop():
                _require_drained(plan, watermark, listener.pending)
    finally:
        own.streams.removeListener(listener)
        session.close_session_beside(own)


def _end_time(plan: StreamPlan) -> None:
    """Add a tick that is later than any deadline.

    The file has a new name each time: a stream does not read a file again, even if it was empty.
    """
    at = _END_OF_TIME + timedelta(milliseconds=plan.settings.watermark_delay_ms)
    write_text_durably(
        plan.checkpoint / "ticks" / f"end-{secrets.token_hex(4)}.json",
        json.dumps({"at": at.isoformat()}) + "\n",
    )


def _require_drained(plan: StreamPlan, watermark: str, pending: int) -> None:
    """Check that the stream has reached the end of time, and that no request is pending."""
    if pending or not watermark or datetime.fromisoformat(watermark) < _END_OF_TIME:
        raise DrainError(
            f"{plan.checkpoint}: the stream was not drained: {pending:,} requests are known to be "
            f"pending, and the watermark is {watermark or 'not set'}. Start it again with drain"
        )


def _run_query(
    spark: SparkSession,
    plan: StreamPlan,
    listener: ProgressListener,
    should_stop: Callable[[], object],
    *,
    even_shards: bool,
) -> str:
    """Run the query until it ends or is stopped; return its last watermark, "" without a batch."""
    requests, events = plan.endpoints.read(spark)
    ticks = (
        folder_ticks(spark, plan.checkpoint / "ticks")
        if plan.idle_timeout is None
        else clock_ticks(spark, plan.idle_timeout)
    )
    results = delayed_operations(
        requests, events, settings=plan.settings, ticks=ticks, even_shards=even_shards
    )
    trigger: dict[str, Any] = {"processingTime": f"{plan.trigger_interval} seconds"}
    if plan.available_now or plan.drain:
        trigger = {"availableNow": True}
    writer = plan.endpoints.out.write(results).queryName("purgatory")
    query = (
        writer.option("checkpointLocation", spark_write_path(plan.checkpoint.resolve()))
        .trigger(**trigger)
        .start()
    )
    try:
        # A single unlimited wait would keep Python from running signal handlers.
        while not should_stop() and not query.awaitTermination(_POLL_INTERVAL):
            continue
        last = query.lastProgress
        return str(last.eventTime.get("watermark", "")) if last else ""
    finally:
        query.stop()
        listener.ended.wait(_LISTENER_TIMEOUT)
