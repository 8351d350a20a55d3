"""A stream's progress, batch by batch."""

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

#: The name under which `job` observes what a batch gave.
OBSERVED = "request_purgatory"


@dataclass(frozen=True)
class BatchProgress:
    """One micro-batch.

    Attributes:
        batch: its number.
        rows: input rows.
        seconds: how long it took, from trigger to commit.
        watermark: in ISO 8601; what is before it has been settled.
        completed, expired, late: what it gave.
        pending: requests that have arrived and not ended, of the shards that had something to do
            since the stream was started.
        state_bytes: memory and files of the state store, as Spark tells.
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

    @property
    def rows_per_second(self) -> float:
        """Input rows per second of the whole batch."""
        return self.rows / self.seconds if self.seconds else 0.0

    @classmethod
    def of(cls, progress: Any, pending: int) -> BatchProgress:
        """From Spark's `StreamingQueryProgress`, and what was pending before it."""
        observed = progress.observedMetrics.get(OBSERVED)
        counts = observed.asDict() if observed is not None else {}
        return cls(
            batch=progress.batchId,
            rows=progress.numInputRows,
            seconds=progress.durationMs.get("triggerExecution", 0) / 1000,
            watermark=progress.eventTime.get("watermark", ""),
            completed=counts.get("completed") or 0,
            expired=counts.get("expired") or 0,
            late=counts.get("late") or 0,
            pending=pending + int(counts.get("pending_change") or 0),
            state_bytes=sum(operator.memoryUsedBytes for operator in progress.stateOperators),
        )


class ProgressListener(StreamingQueryListener):
    """Hands every batch's progress on. Called on a thread of Spark's, soon after the batch."""

    def __init__(self, told: Callable[[BatchProgress], object]) -> None:
        self._told = told
        self._pending = 0
        #: Set once all of the query's progress has been handed on.
        self.ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Called by Spark."""
        self._pending = 0
        self.ended.clear()
        logger.info("stream %s has started", event.id)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Called by Spark."""
        batch = BatchProgress.of(event.progress, self._pending)
        self._pending = batch.pending
        self._told(batch)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Called by Spark."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Called by Spark."""
        logger.info("stream %s has ended", event.id)
        self.ended.set()


def print_batch(console: Console, batch: BatchProgress) -> None:
    """A line for a batch that had rows or gave some."""
    told = {"completed": batch.completed, "expired": batch.expired, "[yellow]late[/]": batch.late}
    gave = ", ".join(f"{count:,} {what}" for what, count in told.items() if count)
    if batch.rows or gave:
        rate = f"{batch.rows:,} rows in {batch.seconds:.1f} s, {batch.rows_per_second:,.0f}/s"
        known = f"{batch.pending:,} pending, settled to {batch.watermark}, state {batch.state_bytes / 2**20:,.0f} MB"
        console.print(
            f"batch {batch.batch}: {rate}; {gave or 'nothing ended'} [dim]{known}[/]",
            soft_wrap=True,
        )
