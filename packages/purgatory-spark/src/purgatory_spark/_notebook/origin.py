"""Where the rows of a trace are from, and what follows from that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._outcomes.batch import satisfactions, trace_satisfactions
from purgatory_spark._outcomes.mapped_outcomes import mapped_satisfactions
from purgatory_spark._rows.mapped_rows import MappedTables
from purgatory_spark._spark.session import is_small
from purgatory_spark._traces.marks import Mark
from purgatory_spark._traces.trace_folder import TraceFolder, write_trace


@dataclass
class Tables:
    """DataFrames in the schema.

    `mapped` are the tables that they were mapped from, if they are a user's own. `rejects` is None
    if the rows are still to be checked: `checked` returns checked ones, which Spark caches.
    `manifest` is None until there was a trace folder. `unpersist` drops cached rows. `are_few` says
    whether the rows are a small input.
    """

    requests: DataFrame
    events: DataFrame
    rejects: DataFrame | None
    checked: Callable[[], ImportedTrace]
    source: str = "DataFrames"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    marks: Callable[[], Iterable[Mark]] = tuple
    unpersist: Callable[[], None] = lambda: None
    mapped: MappedTables | None = None
    are_few: bool = False

    path = None
    manifest: Mapping[str, Any] | None = field(default=None, init=False)

    @property
    def is_divisible(self) -> bool:
        """Whether requests end by themselves, so that hosts may have any size."""
        return self.mapped is not None and self.mapped.is_divisible

    def satisfactions(self, parts: Mapping[str, int]) -> DataFrame:
        if self.mapped is not None and max(parts.values(), default=1) == 1:
            return mapped_satisfactions(self.mapped, parts=parts, are_few=self.are_few)
        return satisfactions(self.requests, self.events, parts=parts, are_few=self.are_few)

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


@dataclass(frozen=True)
class Files:
    """A trace folder, whose files the Python workers read by themselves."""

    spark: SparkSession
    folder: TraceFolder

    mapped = None
    is_divisible = False

    @property
    def are_few(self) -> bool:
        """Whether the rows are a small input."""
        return is_small(self.folder.row_count)

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def manifest(self) -> Mapping[str, Any]:
        return self.folder.manifest

    @property
    def parameters(self) -> Mapping[str, Any]:
        parameters: Mapping[str, Any] = self.folder.manifest["parameters"]
        return parameters

    @property
    def rejects(self) -> DataFrame:
        return self.folder.rejects(self.spark)

    def satisfactions(self, parts: Mapping[str, int]) -> DataFrame:
        return trace_satisfactions(self.spark, self.path, parts=parts, are_few=self.are_few)

    def to_folder(self, target: Path, name: str) -> TraceFolder:  # noqa: ARG002
        return self.folder

    def unpersist(self) -> None:
        """Do nothing, as no rows are cached."""


#: Where the rows of a trace are from.
Origin = Tables | Files
