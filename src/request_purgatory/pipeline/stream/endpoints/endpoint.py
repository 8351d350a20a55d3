"""What any input and output of a stream can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.pipeline.traces.schema import EVENTS, REQUESTS


class EndpointError(ValueError):
    """An input or output of a stream that is not there or can't be used; the message names it.

    Nothing was read or written.
    """


class Source(Protocol):
    """An input, requests or events."""

    @property
    def endless(self) -> bool:
        """Whether there is no such thing as all that is there now."""
        ...

    def described(self, spark: SparkSession) -> str:
        """Which rows these are, for the checkpoint's record.

        The same of the same ones, however they are reached.
        """
        ...

    def read(self, spark: SparkSession, schema: T.StructType) -> DataFrame:
        """The rows as a stream: the columns of `schema`, and maybe `importers.imported.CORRUPT` and `RAW` of rows that are none.

        Raises:
            EndpointError, TraceFormatError, SchemaError: the input is not there, or is something
                else.
        """
        ...


class Sink(Protocol):
    """An output, for rows of `job.STREAMED`."""

    @property
    def places(self) -> tuple[str, str]:
        """Where outcomes are, and where late rows are, for the user."""
        ...

    def described(self, spark: SparkSession) -> str:
        """As a source's."""
        ...

    def write(self, results: DataFrame) -> Any:
        """A stream writer, whose checkpoint and trigger are not set yet."""
        ...


@dataclass(frozen=True)
class Endpoints:
    """All that a stream reads and writes. Any kinds go together."""

    requests: Source
    events: Source
    out: Sink

    def described(self, spark: SparkSession) -> dict[str, str]:
        """For the checkpoint's record.

        Raises:
            EndpointError: one of them is not there.
        """
        return {
            name: getattr(self, name).described(spark) for name in ("requests", "events", "out")
        }

    def read(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        """Requests and events as streams; raises what `Source.read` raises."""
        return self.requests.read(spark, REQUESTS), self.events.read(spark, EVENTS)
