"""Where the rows of a trace are from, and what follows from that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._outcomes.batch import satisfactions, trace_satisfactions
from purgatory_spark._traces.marks import Mark
from purgatory_spark._traces.trace_folder import TraceFolder, write_trace


class Origin(Protocol):
    """Where the rows of a trace are from."""

    @property
    def path(self) -> Path | None:
        """The trace folder; None if there is none."""

    @property
    def manifest(self) -> Mapping[str, Any] | None:
        """The content of `trace.json`, which has the numbers of rows; None if there is none yet."""

    @property
    def rejects(self) -> DataFrame | None:
        """The rows that were rejected (`schema.REJECTS`); None if rows are still to be checked."""

    def satisfactions(self, parts: Mapping[str, int]) -> DataFrame:
        """Return how each request ends (`batch.SATISFACTIONS`), with these parts of hosts."""

    def to_folder(self, target: Path, name: str) -> TraceFolder:
        """Return the trace folder, which is written to `target` if there is none."""

    def unpersist(self) -> None:
        """Drop the rows that Spark caches."""


@dataclass
class Tables:
    """DataFrames in the schema.

    Attributes:
        requests: Rows of `schema.REQUESTS`.
        events: Rows of `schema.EVENTS`.
        rejects: See `Origin`.
        checked: Returns the checked rows, which Spark caches.
        source: Where the rows are from, for reports.
        parameters: How they were read, for reports.
        marks: Returns the moments that reports compare before and after.
        release: Drops the rows that Spark caches.
    """

    requests: DataFrame
    events: DataFrame
    rejects: DataFrame | None
    checked: Callable[[], ImportedTrace]
    source: str = "DataFrames"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    marks: Callable[[], Iterable[Mark]] = tuple
    release: Callable[[], None] = lambda: None

    path = None
    manifest: Mapping[str, Any] | None = field(default=None, init=False)

    def satisfactions(self, parts: Mapping[str, int]) -> DataFrame:
        """Return how each request ends; see `Origin`."""
        return satisfactions(self.requests, self.events, parts=parts)

    def to_folder(self, target: Path, name: str) -> TraceFolder:
        """Return a new trace folder. It is not kept, but the numbers of its rows are."""
        target.mkdir()
        with self.checked() as imported:
            folder = write_trace(
                imported,
                target,
                name=name,
                source=self.source,
                parameters=self.parameters,
                marks=self.marks(),
            )
        self.manifest = folder.manifest
        return folder

    def unpersist(self) -> None:
        """Drop the rows that Spark caches."""
        self.release()


@dataclass(frozen=True)
class Files:
    """A trace folder, whose files the Python workers read by themselves.

    Attributes:
        spark: The session to read with.
        folder: The folder.
    """

    spark: SparkSession
    folder: TraceFolder

    @property
    def path(self) -> Path:
        """See `Origin`."""
        return self.folder.path

    @property
    def manifest(self) -> Mapping[str, Any]:
        """See `Origin`."""
        return self.folder.manifest

    @property
    def rejects(self) -> DataFrame:
        """See `Origin`."""
        return self.folder.rejects(self.spark)

    def satisfactions(self, parts: Mapping[str, int]) -> DataFrame:
        """Return how each request ends; see `Origin`."""
        return trace_satisfactions(self.spark, self.path, parts=parts)

    def to_folder(self, target: Path, name: str) -> TraceFolder:  # noqa: ARG002
        """Return the trace folder, which exists already."""
        return self.folder

    def unpersist(self) -> None:
        """Do nothing, as no rows are cached."""
