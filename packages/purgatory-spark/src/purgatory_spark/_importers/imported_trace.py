"""The result of an importer."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from purgatory_spark._rows.accepted_tables import AcceptedTables
from purgatory_spark._rows.mapped_rows import MappedTables
from purgatory_spark._rows.row_counts import RowCounts
from purgatory_spark._rows.schema import REQUESTS, with_passed


@dataclass(frozen=True)
class CheckedTables:
    """The rows of a trace, accepted and rejected.

    Attributes:
        requests: Rows of `schema.REQUESTS`, which may lack columns that are passed on.
        events: Rows of `schema.EVENTS`.
        rejects: Rows of `schema.REJECTS`.
        counts: How many rows were read, and rejected.
    """

    requests: DataFrame
    events: DataFrame
    rejects: DataFrame
    counts: RowCounts


@dataclass
class ImportedTrace:
    """A trace in the pipeline's schema, before it is written.

    The data frames are lazy, and Spark caches the rows that several of them are computed from. Used
    as a context manager, an `ImportedTrace` drops that cache at the end of the block.

    Attributes:
        format: One of `trace_reader.FORMATS`, or `workload`.
        tables: The rows. Mapped tables are `AcceptedTables`, if nothing else was done to them.
        notes: Remarks that readers of a report need to know.
        cached: The data frames that `unpersist` removes from Spark's cache.
    """

    format: str
    tables: CheckedTables | AcceptedTables
    notes: list[str] = field(default_factory=list)
    cached: list[DataFrame] = field(default_factory=list)

    @property
    def spark(self) -> SparkSession:
        """The session of the data frames."""
        tables = self.tables
        table = tables.tables.requests if isinstance(tables, AcceptedTables) else tables.requests
        return table.sparkSession

    @cached_property
    def requests(self) -> DataFrame:
        """Rows of `schema.REQUESTS`."""
        requests = self.tables.requests
        if requests.columns != REQUESTS.names:
            # A format need not know of all columns that are passed on.
            requests = with_passed(requests).select(*REQUESTS.names)
        return requests

    @property
    def events(self) -> DataFrame:
        """Rows of `schema.EVENTS`."""
        return self.tables.events

    @property
    def rejects(self) -> DataFrame:
        """Rows of `schema.REJECTS`."""
        return self.tables.rejects

    @property
    def mapped(self) -> MappedTables | None:
        """The tables before they were mapped, if that is all that was done to them."""
        return self.tables.tables if isinstance(self.tables, AcceptedTables) else None

    def unpersist(self) -> None:
        """Drop the cached rows. The data frames stay usable, and read the files again."""
        for table in self.cached:
            table.unpersist()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.unpersist()
