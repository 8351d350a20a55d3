"""Show the progress of Spark jobs on the console."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from purgatory_spark._spark.job_names import named_jobs

_POLL_INTERVAL_S = 0.2


@contextmanager
def step(console: Console, spark: SparkSession, description: str) -> Iterator[None]:
    """Show a progress bar of Spark's tasks in the block, on a terminal, and then its duration."""
    description = escape(description)
    started = time.monotonic()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[tasks]}"),
        TimeElapsedColumn(),
    )
    finished = threading.Event()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task(description, total=None, tasks="")
        poller = threading.Thread(
            target=_poll_tasks, args=(spark, progress, bar, finished), daemon=True
        )
        poller.start()
        try:
            with named_jobs(spark, description):
                yield
        finally:
            finished.set()
            poller.join(5)
    console.print(f"[green]✓[/] {description} [dim]{time.monotonic() - started:.1f} s[/]")


def _poll_tasks(
    spark: SparkSession, progress: Progress, bar: TaskID, finished: threading.Event
) -> None:
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return  # A Spark Connect client has no status tracker.
    tracker = context.statusTracker()
    while not finished.wait(_POLL_INTERVAL_S):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:
            return  # The session is stopping; the block raises the error that says why.
        running = [stage for stage in stages if stage is not None]
        if running:
            total = sum(stage.numTasks for stage in running)
            completed = sum(stage.numCompletedTasks for stage in running)
            progress.update(
                bar, total=total, completed=completed, tasks=f"{completed}/{total} tasks"
            )
