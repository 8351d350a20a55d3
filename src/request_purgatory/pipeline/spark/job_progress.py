"""Progress of long work on the console."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

#: How often Spark is asked how far it is.
_LOOK_EVERY_S = 0.2


@contextmanager
def step(console: Console, spark: SparkSession, description: str) -> Iterator[None]:
    """Show Spark's tasks while the block runs, and one line with the time it took at its end."""
    description = escape(description)
    begun = time.monotonic()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[tasks]}"),
        TimeElapsedColumn(),
    )
    done = threading.Event()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task(description, total=None, tasks="")
        watcher = threading.Thread(target=_watch, args=(spark, progress, bar, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join(5)
    console.print(f"[green]✓[/] {description} [dim]{time.monotonic() - begun:.1f} s[/]")


def _watch(spark: SparkSession, progress: Progress, bar: TaskID, done: threading.Event) -> None:
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return  # Connect's clients see no tasks of their own accord.
    tracker = context.statusTracker()
    while not done.wait(_LOOK_EVERY_S):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:
            return  # The session is going down; the step's own error tells more.
        running = [stage for stage in stages if stage is not None]
        if running:
            total = sum(stage.numTasks for stage in running)
            completed = sum(stage.numCompletedTasks for stage in running)
            progress.update(
                bar, total=total, completed=completed, tasks=f"{completed}/{total} tasks"
            )
