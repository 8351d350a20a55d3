"""The result of an importer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from pyspark.sql import DataFrame

from purgatory_spark._rows.accepted_tables import AcceptedTables
from purgatory_spark._rows.mapped_rows import MappedTables
from purgatory_spark._rows.row_counts import RowCounts
from purgatory_spark._rows.schema import REQUESTS, with_passed


@dataclass
class ImportedTrace:
    """A trace in the pipeline's schema, before it is written.

    The data frames are lazy, and Spark caches the rows that several of them are computed from. Used
    as a context manager, an `ImportedTrace` drops that cache at the end of the block.

    Attributes:
        format: One of `trace_reader.FORMATS`, or `workload`.
        requests: Rows of `schema.REQUESTS`.
        events: Rows of `schema.EVENTS`.
        rejects: Rows of `schema.REJECTS`.
        counts: How many rows were read, and rejected.
        notes: Remarks that readers of a report need to know.
        cached: The data frames that `unpersist` removes from Spark's cache.
        accepted: The rows of mapped tables, if that is all that was done to them.
    """

    format: str
    requests: DataFrame
    events: DataFrame
    rejects: DataFrame
    counts: RowCounts
    notes: list[str] = field(default_factory=list)
    cached: list[DataFrame] = field(default_factory=list)
    accepted: AcceptedTables | None = None

    def __post_init__(self) -> None:
        if self.requests.columns != REQUESTS.names:
            # A format need not know of all columns that are passed on.
            self.requests = with_passed(self.requests).select(*REQUESTS.names)

    @property
    def mapped(self) -> MappedTables | None:
        """The tables before they were mapped, if that is all that was done to them."""
        return None if self.accepted is None else self.accepted.tables

    def unpersist(self) -> None:
        """Drop the cached rows. The data frames stay usable, and read the files again."""
        for table in self.cached:
            table.unpersist()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.unpersist()
