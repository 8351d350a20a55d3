"""A generated load: requests and events of the present, at a constant rate."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._errors import require_at_least
from purgatory_spark._rows.schema import MAX_TIMEOUT_MS
from purgatory_spark._stream.endpoints.endpoint import EndpointError
from request_purgatory.errors import InvalidArgumentError

REQUEST_TYPE = "rate"


@dataclass(frozen=True)
class RateSource:
    """Rows of Spark's rate source, which numbers rows from 0 and gives them the clock's times.

    Host and key of row n are hashes of n (xxhash64), and its time follows from n and the stream's
    first start. That start is in the checkpoint. So a batch that is read again has the same rows,
    and after a downtime the rows of that time arrive at once. A stream with a new checkpoint starts
    from 0 again. A request waits for one event, on one of its host's keys.
    """

    rows_per_second: int
    hosts: int = 8
    keys: int = 1000
    timeout_ms: int = 30_000
    unbounded = True

    def __post_init__(self) -> None:
        require_at_least(1, rows_per_second=self.rows_per_second, hosts=self.hosts, keys=self.keys)
        if not 0 <= self.timeout_ms <= MAX_TIMEOUT_MS:
            raise InvalidArgumentError("timeout_ms", f"from 0 to {MAX_TIMEOUT_MS}", self.timeout_ms)

    def identity(self, spark: SparkSession) -> str:  # noqa: ARG002 - the same in every session
        return (
            f"{self.rows_per_second} rows/s on {self.hosts} hosts with {self.keys} keys each, "
            f"timeout {self.timeout_ms} ms"
        )

    def read(self, spark: SparkSession, schema: T.StructType) -> DataFrame:
        rows = spark.readStream.format("rate").option("rowsPerSecond", self.rows_per_second).load()
        # The second column differs between requests and events. As a salt it makes row n of the one
        # independent of row n of the other.
        table = F.lit(schema.names[1])
        key = F.concat(F.lit("key-"), _hash_below(self.keys, F.lit("key"), table))
        columns = {
            "host": F.concat(F.lit("host-"), _hash_below(self.hosts, F.lit("host"), table)),
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
        absent = F.lit(None).cast("string")
        return rows.select(*[columns.get(name, absent).alias(name) for name in schema.names])

    def read_columns(
        self,
        spark: SparkSession,  # noqa: ARG002 - a source's arguments
        columns: Iterable[str],  # noqa: ARG002
        lists: Collection[str],  # noqa: ARG002
    ) -> DataFrame:
        """Refuse a mapping."""
        raise EndpointError("a generated load has the columns of the schema, and takes no mapping")


def _hash_below(count: int, *salt: Column) -> Column:
    """Return a hash of the row's number and the salt, from 0 to `count - 1`, as text."""
    return F.pmod(F.xxhash64(*salt, "value"), F.lit(count)).cast("string")
