"""Input of the questions on Spark: requests with one watch key each, and their events, in files.

A request arrives every millisecond of event time. Its event follows after at most `2 * pending`
milliseconds, uniformly distributed, and the timeout is nine tenths of that. So a tenth of the
requests expire and `pending` of them wait at a time. With `keys`, requests share keys, and the
first event of a key completes all requests that wait for it; then at most as many requests wait as
there are keys. Every column is a function of the request's number and Spark's hash, so the rows are
the same on every machine. Files are in order of time.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

#: Event time between two arrivals.
GAP_US = 1_000
_BEGIN_US = 1_700_000_000_000_000
_HOSTS = 64
_BASE_FOLDER = Path(__file__).resolve().parent.parent / "build" / "stream-data"


@dataclass(frozen=True)
class StreamData:
    """One data set.

    Attributes:
        requests: The number of requests, and of events.
        pending: The number of requests that wait at a time.
        keys: The number of shared keys; 0 for one key for each request.
        per_file: The number of requests in a file; another file has the events of the same span of
            time.
    """

    requests: int
    pending: int
    keys: int = 0
    per_file: int = 400_000

    @property
    def timeout_ms(self) -> int:
        """The timeout of every request."""
        return max(self.pending * 9 // 5 * GAP_US // 1_000, 1)

    @property
    def folder(self) -> Path:
        """The folder of `requests` and `events`, which `make` writes."""
        return _BASE_FOLDER / f"{self.requests}-{self.pending}-{self.keys}-{self.per_file}"

    def tables(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        """Return requests and events of the schema, each with a file number."""
        numbers = spark.range(self.requests)
        arrived = (
            F.lit(_BEGIN_US)
            + F.col("id") * GAP_US
            + F.pmod(F.xxhash64("id", F.lit(1)), F.lit(GAP_US))
        )
        wait = F.pmod(F.xxhash64("id", F.lit(2)), F.lit(2 * self.pending * GAP_US)) + 1
        key = F.col("id") if not self.keys else F.pmod(F.xxhash64("id", F.lit(3)), F.lit(self.keys))
        host = F.format_string(
            "host-%02d", F.pmod(F.xxhash64("id" if not self.keys else key, F.lit(4)), F.lit(_HOSTS))
        )
        name = F.format_string("key-%d", key)
        requests = numbers.select(
            host.alias("host"),
            F.format_string("r%011d", "id").alias("request_id"),
            F.lit("benchmark").alias("request_type"),
            F.timestamp_micros(arrived).alias("arrived_at"),
            F.lit(self.timeout_ms).cast("int").alias("timeout_ms"),
            F.array(name).alias("watch_keys"),
            F.lit("count").alias("aggregate"),
            F.lit(1.0).alias("threshold"),
            F.lit("all").alias("quantifier"),
            self._file(arrived),
        )
        events = numbers.select(
            host.alias("host"),
            name.alias("key"),
            F.timestamp_micros(arrived + wait).alias("occurred_at"),
            F.lit(1.0).alias("amount"),
            self._file(arrived + wait),
        )
        return requests, events

    def _file(self, us: Column) -> Column:
        return ((us - _BEGIN_US) / F.lit(GAP_US * self.per_file)).cast("int").alias("file")

    def make(self, spark: SparkSession) -> Path:
        """Write the files unless they exist.

        Returns:
            Their folder.
        """
        if self.folder.exists():
            return self.folder
        # Another process may be writing the same files.
        folder = self.folder.with_name(f"{self.folder.name}.{os.getpid()}")
        for kind, table in zip(("requests", "events"), self.tables(spark), strict=True):
            time = "arrived_at" if kind == "requests" else "occurred_at"
            made = folder / f"{kind}-made"
            count = -(-self.requests // self.per_file) + 1 + 2 * self.pending // self.per_file
            files = table.repartitionByRange(count, "file").sortWithinPartitions("file", time)
            files.write.partitionBy("file").parquet(str(made))
            (folder / kind).mkdir()
            for number, file in enumerate(
                sorted(made.glob("file=*/*.parquet"), key=lambda file: int(file.parent.name[5:]))
            ):
                # Spark reads the oldest file first.
                os.utime(
                    file.rename(folder / kind / f"{number:05d}.parquet"),
                    (1e9 + number, 1e9 + number),
                )
            shutil.rmtree(made)
        try:
            folder.rename(self.folder)
        except OSError:
            shutil.rmtree(folder)
        return self.folder
