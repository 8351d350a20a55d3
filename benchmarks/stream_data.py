"""Input of the questions on Spark: requests with one watch key each, and their events, in files.

A request arrives every millisecond of event time. Its event follows after at most `2 * pending`
milliseconds, uniformly distributed, and the timeout is nine tenths of that. So a tenth of the
requests expire and `pending` of them wait at a time. With `keys`, requests share keys, and the
first event of a key completes all requests that wait for it; then at most as many requests wait as
there are keys. With `watched`, a request has that many keys of its own, and waits for all of them.
Every column is a function of the request's number and Spark's hash, so the rows are the same on
every machine. Files are in order of time.
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
        requests: The number of requests.
        pending: The number of requests that wait at a time.
        keys: The number of shared keys; 0 for one key for each request.
        per_file: The number of requests in a file; another file has the events of the same span of
            time.
        watched: The number of keys of a request, and of events for it. Shared keys are watched one
            by one.
    """

    requests: int
    pending: int
    keys: int = 0
    per_file: int = 400_000
    watched: int = 1

    def __post_init__(self) -> None:
        """Check that the keys of a request are on one host."""
        if self.keys and self.watched != 1:
            raise ValueError(f"watched must be 1 with shared keys, not {self.watched}")

    @property
    def timeout_ms(self) -> int:
        """The timeout of every request."""
        return max(self.pending * 9 // 5 * GAP_US // 1_000, 1)

    @property
    def folder(self) -> Path:
        """The folder of `requests` and `events`, which `make` writes."""
        name = f"{self.requests}-{self.pending}-{self.keys}-{self.per_file}-{self.watched}"
        return _BASE_FOLDER / name

    def tables(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        """Return requests and events of the schema, each with a file number."""
        request, event = F.col("id"), F.col("id")
        requests = self._requests(spark.range(self.requests), request)
        of_request = F.floor(event / self.watched) if self.watched > 1 else event
        wait = F.pmod(F.xxhash64(event, F.lit(2)), F.lit(2 * self.pending * GAP_US)) + 1
        occurred = self._arrived_us(of_request) + wait
        events = spark.range(self.requests * self.watched).select(
            self._host(of_request).alias("host"),
            self._key_name(event).alias("key"),
            F.timestamp_micros(occurred).alias("occurred_at"),
            F.lit(1.0).alias("amount"),
            self._file(occurred),
        )
        return requests, events

    def _requests(self, numbers: DataFrame, request: Column) -> DataFrame:
        arrived = self._arrived_us(request)
        names = [
            self._key_name(request * self.watched + at if self.watched > 1 else request)
            for at in range(self.watched)
        ]
        return numbers.select(
            self._host(request).alias("host"),
            F.format_string("r%011d", request).alias("request_id"),
            F.lit("benchmark").alias("request_type"),
            F.timestamp_micros(arrived).alias("arrived_at"),
            F.lit(self.timeout_ms).cast("int").alias("timeout_ms"),
            F.array(*names).alias("watch_keys"),
            F.lit("count").alias("aggregate"),
            F.lit(1.0).alias("threshold"),
            F.lit("all").alias("quantifier"),
            self._file(arrived),
        )

    def _arrived_us(self, request: Column) -> Column:
        return (
            F.lit(_BEGIN_US)
            + request * GAP_US
            + F.pmod(F.xxhash64(request, F.lit(1)), F.lit(GAP_US))
        )

    def _key(self, event: Column) -> Column:
        return F.pmod(F.xxhash64(event, F.lit(3)), F.lit(self.keys)) if self.keys else event

    def _key_name(self, event: Column) -> Column:
        return F.format_string("key-%d", self._key(event))

    def _host(self, request: Column) -> Column:
        # Whoever shares a key shares its host.
        return F.format_string(
            "host-%02d", F.pmod(F.xxhash64(self._key(request), F.lit(4)), F.lit(_HOSTS))
        )

    def _file(self, us: Column) -> Column:
        return ((us - _BEGIN_US) / F.lit(GAP_US * self.per_file)).cast("int").alias("file")

    def make_calls(self, spark: SparkSession) -> Path:
        """Write the requests as a user's own table, unless it exists: a row has its event's time.

        Returns:
            Its folder, which is beside `requests` and `events`.
        """
        folder = self.make(spark) / "calls"
        if not folder.exists():
            requests, events = self.tables(spark)
            took_us = F.unix_micros("occurred_at") - F.unix_micros("arrived_at")
            joined = requests.drop("host", "file").withColumn("key", F.col("watch_keys")[0])
            calls = joined.join(events, "key").select(
                F.col("host").alias("server"),
                F.col("request_id").alias("call"),
                F.col("arrived_at").alias("started"),
                (took_us / 1000).alias("took_ms"),
            )
            calls.sort("started").write.mode("ignore").parquet(str(folder))
        return folder

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
