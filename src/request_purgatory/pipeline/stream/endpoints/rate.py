"""A load that is made up: requests and events of the present, at a rate."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.traces.schema import LONGEST_TIMEOUT_MS

REQUEST_TYPE = "rate"


@dataclass(frozen=True)
class RateSource:
    """Rows of Spark's rate source, which counts them from 0 and gives them the times of the clock.

    Row n is a function of n, by xxhash64, and of its time, which follows from n and the stream's
    first start. That start is in the checkpoint: a batch that is read again has the same rows, and
    those of the time while the stream was down come at once when it starts again. A stream with a
    new checkpoint counts from 0 again.

    Attributes:
        rows_per_second: how many.
        hosts: hosts that the rows are spread over.
        keys: watch keys of a host. A request waits for one event on one of them.
        timeout_ms: of each request.
    """

    rows_per_second: int
    hosts: int = 8
    keys: int = 1000
    timeout_ms: int = 30_000
    endless = True

    def __post_init__(self) -> None:
        for name in ("rows_per_second", "hosts", "keys"):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(name, "at least 1", getattr(self, name))
        if not 0 <= self.timeout_ms <= LONGEST_TIMEOUT_MS:
            raise InvalidArgumentError(
                "timeout_ms", f"from 0 to {LONGEST_TIMEOUT_MS}", self.timeout_ms
            )

    def described(self, spark: SparkSession) -> str:  # noqa: ARG002 - it is the same everywhere
        """All that the rows follow from."""
        return f"{self.rows_per_second} rows/s on {self.hosts} hosts with {self.keys} keys each, timeout {self.timeout_ms} ms"

    def read(self, spark: SparkSession, schema: T.StructType) -> DataFrame:
        """The rows as a stream, of either table."""
        rows = spark.readStream.format("rate").option("rowsPerSecond", self.rows_per_second).load()
        # Row n of requests and row n of events have nothing to do with each other.
        table = F.lit(schema.names[1])
        key = F.concat(F.lit("key-"), _spread(self.keys, F.lit("key"), table))
        columns = {
            "host": F.concat(F.lit("host-"), _spread(self.hosts, F.lit("host"), table)),
            "request_id": F.concat(F.lit("request-"), F.col("value").cast("string")),
            "request_type": F.lit(REQUEST_TYPE),
            "arrived_at": F.col("timestamp"),
            "timeout_ms": F.lit(self.timeout_ms).cast("int"),
            "watch_keys": F.array(key),
            "aggregate": F.lit("count"),
            "threshold": F.lit(1.0),
            "quantifier": F.lit("all"),
            "key": key,
            "occurred_at": F.col("timestamp"),
            "amount": F.lit(1.0),
        }
        return rows.select(*[columns[name].alias(name) for name in schema.names])


def _spread(count: int, *salt: Column) -> Column:
    return F.pmod(F.xxhash64(*salt, "value"), F.lit(count)).cast("string")
