"""A stream's progress, micro-batch by micro-batch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from rich.console import Console

logger = logging.getLogger(__name__)

#: The name of the observed metrics in which `job` counts the results of a batch.
OBSERVED = "request_purgatory"


@dataclass(frozen=True)
class BatchProgress:
    """The progress of one micro-batch.

    Attributes:
        batch: its number.
        rows: input rows.
        seconds: its duration, from trigger to commit.
        watermark: in ISO 8601; everything before it has been processed.
        completed: requests that completed.
        expired: requests that expired.
        late: rows that were late or rejected.
        pending: requests that have arrived and not ended, in the shards that have been stepped
            since the stream was started.
        state_bytes: compressed size of everything that those shards remember, without the state
            store's overhead.
        started_at: when it was triggered, by the driver's clock, in ISO 8601.
    """

    batch: int
    rows: int
    seconds: float
    watermark: str
    completed: int
    expired: int
    late: int
    pending: int
    state_bytes: int
    started_at: str

    @property
    def rows_per_second(self) -> float:
        """Input rows per second, over the whole duration."""
        return self.rows / self.seconds if self.seconds else 0.0

    @classmethod
    def from_spark(cls, progress: Any, pending: int, state_bytes: int) -> BatchProgress:
        observed = progress.observedMetrics.get(OBSERVED)
        counts = observed.asDict() if observed is not None else {}
        return cls(
            batch=progress.batchId,
            # Spark counts those that it reads: files, where Python workers read the rows.
            rows=counts.get("rows") or 0,
            seconds=progress.durationMs.get("triggerExecution", 0) / 1000,
            watermark=progress.eventTime.get("watermark", ""),
            completed=counts.get("completed") or 0,
            expired=counts.get("expired") or 0,
            late=counts.get("late") or 0,
            pending=pending + int(counts.get("pending_change") or 0),
            state_bytes=state_bytes + int(counts.get("state_change") or 0),
            started_at=progress.timestamp,
        )


class ProgressListener(StreamingQueryListener):
    """Passes every batch's progress to a callback, on a thread of Spark's, soon after the batch."""

    def __init__(self, on_batch: Callable[[BatchProgress], object]) -> None:
        self._on_batch = on_batch
        #: The pending requests after the last batch; see `BatchProgress`.
        self.pending = 0
        self._state_bytes = 0
        #: Set once all batches of the query have been passed on.
        self.ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Begin to count pending requests and the state's bytes from 0."""
        self.pending = self._state_bytes = 0
        self.ended.clear()
        logger.info("stream %s has started", event.id)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        batch = BatchProgress.from_spark(event.progress, self.pending, self._state_bytes)
        self.pending, self._state_bytes = batch.pending, batch.state_bytes
        self._on_batch(batch)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        logger.info("stream %s has ended", event.id)
        self.ended.set()


def print_batch(console: Console, batch: BatchProgress) -> None:
    """Print one line for a batch that had input rows or results."""
    counts = {"completed": batch.completed, "expired": batch.expired, "[yellow]late[/]": batch.late}
    results = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    if batch.rows or results:
        rate = f"{batch.rows:,} rows in {batch.seconds:.1f} s, {batch.rows_per_second:,.0f}/s"
        state = (
            f"{batch.pending:,} pending, watermark {batch.watermark}, "
            f"state {batch.state_bytes / 2**20:,.1f} MB"
        )
        console.print(
            f"batch {batch.batch}: {rate}; {results or 'no results'} [dim]{state}[/]",
            soft_wrap=True,
        )
