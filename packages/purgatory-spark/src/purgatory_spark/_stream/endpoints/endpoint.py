"""The interfaces of a stream's inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.schema import EVENTS, REQUESTS
from purgatory_spark._stream.mapped_streams import map_streams, require_stream_mapping


class EndpointError(ValueError):
    """An input or output of a stream does not exist or can't be used; the message names it.

    Nothing was read or written.
    """


class Source(Protocol):
    """An input: requests or events.

    One that does not exist, is of another format or lacks a column raises EndpointError,
    TraceFormatError or SchemaError.
    """

    @property
    def unbounded(self) -> bool:
        """Whether the input has no end, so that `available_now` and `drain` make no sense."""

    def identity(self, spark: SparkSession) -> str:
        """Return a text that identifies the rows, for the checkpoint's record.

        It is the same for the same rows, however they are reached. Checkpoints on disk have these
        texts.
        """

    def read(self, spark: SparkSession, schema: T.StructType) -> DataFrame:
        """Return the rows as a streaming DataFrame.

        It has the columns of `schema`, and optionally those in which a source describes malformed
        rows; see `job.delayed_operations`.
        """

    def read_columns(
        self, spark: SparkSession, columns: Iterable[str], lists: Collection[str]
    ) -> DataFrame:
        """Return columns of the user's, for a mapping, as a streaming DataFrame.

        Like the result of `read`, it may have columns that describe malformed rows. `lists`:
        columns that may be arrays, where the input itself does not say which are.
        """


class Sink(Protocol):
    """An output, for rows of `job.RESULTS`."""

    @property
    def locations(self) -> tuple[str, str]:
        """Where outcomes and where late rows are written, as text for the user."""

    def identity(self, spark: SparkSession) -> str:
        """Return a text that identifies the output, like that of a source."""

    def write(self, results: DataFrame) -> Any:
        """Return a `DataStreamWriter`, which still needs a checkpoint and a trigger."""


@dataclass(frozen=True)
class Endpoints:
    """What a stream reads and writes; without a mapping, inputs have the schema's columns."""

    requests: Source
    events: Source
    out: Sink
    mapping: TableMapping | None = None

    def __post_init__(self) -> None:
        if self.mapping is not None:
            require_stream_mapping(self.mapping)

    def identities(self, spark: SparkSession) -> dict[str, str]:
        """Return the identities of all three by name, for the checkpoint's record."""
        return {name: getattr(self, name).identity(spark) for name in ("requests", "events", "out")}

    def read(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        mapping = self.mapping
        if mapping is None:
            return self.requests.read(spark, REQUESTS), self.events.read(spark, EVENTS)
        return map_streams(
            self.requests.read_columns(spark, mapping.input_columns, mapping.list_columns),
            mapping,
            events=self.events.read_columns(
                spark, list(dict.fromkeys(mapping.event_columns.values())), ()
            ),
        )
