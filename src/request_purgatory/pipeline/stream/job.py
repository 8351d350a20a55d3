"""The streaming job: requests and events in, outcomes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.spark.worker_gc import settle_worker
from request_purgatory.pipeline.stream.processor import ShardProcessor
from request_purgatory.pipeline.stream.progress import OBSERVED
from request_purgatory.pipeline.stream.state import rows
from request_purgatory.pipeline.traces.importers.delimited import require_parquet_columns
from request_purgatory.pipeline.traces.importers.imported import (
    CORRUPT,
    RAW,
    SOURCE,
    event_checks,
    request_checks,
    set_aside,
)
from request_purgatory.pipeline.traces.importers.imported import REASON as REASON_COLUMN
from request_purgatory.pipeline.traces.schema import (
    AGGREGATES,
    COMPLETED,
    EVENTS,
    EXPIRED,
    JSON_TIMES,
    OUTCOMES,
    REQUESTS,
    require,
)

#: What the stream gives: outcomes, where `kind` is "outcomes"; and, where it is "late", rows of the
#: input that were not taken in: why, and the row as JSON, the outcome's columns null.
STREAMED = T.StructType(
    [
        *OUTCOMES.fields,
        T.StructField("reason", T.StringType()),
        T.StructField("row", T.StringType()),
        T.StructField("kind", T.StringType()),
    ]
)

BY_HOST = "host"
BY_KEY = "key"
ROUTES = (BY_HOST, BY_KEY)

_PACKED = T.StructType(
    [
        T.StructField("shard", T.IntegerType()),
        T.StructField("kind", T.StringType()),
        T.StructField("blob", T.BinaryType()),
    ]
)
#: Spark runs a stateful operator by event time if a column is marked as watermarked, and drops that
#: operator's late rows by that column. This one is never late: shards find what is late themselves,
#: and say so. (pandas' times end in 2262.)
_NEVER_LATE = "2261-01-01"
_WATERMARK_MARK = "spark.watermarkDelayMs"
#: Columns by which a source says what it knows of a row.
_SAID = (CORRUPT, RAW, SOURCE)


@dataclass(frozen=True)
class StreamSettings:
    """How a stream is cut into shards, and how long it waits and remembers.

    Attributes:
        shards: parts that the state is kept in; each is worked on by one task at a time, and has to
            fit its memory.
        route: shards by "host"; or by "key", where each request has one watch key and a host may be
            larger than a shard.
        delay_ms: how far rows may be out of order: the watermark stays so far behind the latest
            time seen in each input. A row at or before the watermark is late.
        remember_ms: how long after its last event a key that no request watches is remembered, for
            the `max` and `sum` of requests that come later; a key that was forgotten begins again
            at 0.
        max_shard_mb: what a Python worker may take for the rows that a shard looks at together,
            besides some 200 MB that it takes anyway; what waits, and what is remembered of keys, is
            in mapped files, and comes on top as far as there is room.
    """

    shards: int = 16
    route: str = BY_HOST
    delay_ms: int = 10_000
    remember_ms: int = 86_400_000
    max_shard_mb: int = 2048

    def __post_init__(self) -> None:
        if self.route not in ROUTES:
            raise InvalidArgumentError("route", f"one of {', '.join(ROUTES)}", self.route)
        for name, least in (
            ("shards", 1),
            ("delay_ms", 0),
            ("remember_ms", 0),
            ("max_shard_mb", 1),
        ):
            if getattr(self, name) < least:
                raise InvalidArgumentError(name, f"at least {least}", getattr(self, name))

    def parameters(self) -> dict[str, Any]:
        """All fields, for the record."""
        return asdict(self)


def delayed_operations(
    requests: DataFrame,
    events: DataFrame,
    *,
    settings: StreamSettings | None = None,
    ticks: DataFrame | None = None,
) -> DataFrame:
    """How every request of a stream ends, given a stream of events: the same rules, and the same rows, as `batch_outcomes`.

    Args:
        requests: streaming, of `schema.REQUESTS`. A row that is none, as the source found, may have
            the reason in a column `imported.CORRUPT` and itself in `imported.RAW`; a row with nulls
            may have its Parquet file in `imported.SOURCE`, which has to have all columns.
        events: streaming, of `schema.EVENTS`; likewise.
        settings: see there.
        ticks: streaming, with a column `at TIMESTAMP`: a row says that neither input has anything
            more before that time, but for `delay_ms`. With it the watermark moves also while an
            input is quiet.

    Returns:
        A streaming DataFrame of `STREAMED`. A request that completes is told once the watermark has
        passed the event that completed it, one that expires once it has passed the deadline.

    Raises:
        SchemaError: a column is missing or of another type.
    """
    settings = settings or StreamSettings()
    packed = _packed_requests(
        _required(requests, REQUESTS, "requests"), ticks, settings
    ).unionByName(_packed_events(_required(events, EVENTS, "events"), ticks, settings))
    never_late = (
        F.lit(_NEVER_LATE).cast("timestamp").alias("never_late", metadata={_WATERMARK_MARK: 0})
    )
    watched = packed.select("*", never_late)
    processor = ShardProcessor(remember_ms=settings.remember_ms, max_shard_mb=settings.max_shard_mb)
    results = watched.groupBy("shard").transformWithStateInPandas(
        processor, "blob binary", "append", "eventtime"
    )
    streamed = results.mapInArrow(_unpack, STREAMED)
    counted = {
        "completed": F.count_if(F.col("outcome") == COMPLETED),
        "expired": F.count_if(F.col("outcome") == EXPIRED),
        "late": F.count_if(F.col("kind") == "late"),
        "pending_change": F.sum(F.when(F.col("kind") == rows.PENDING, F.col("waited_ms"))),
    }
    observed = streamed.observe(OBSERVED, *[count.alias(name) for name, count in counted.items()])
    return observed.where(F.col("kind") != rows.PENDING)


def _required(table: DataFrame, schema: T.StructType, what: str) -> DataFrame:
    """The columns of `schema`, and what the source says of the rows: null if it says nothing."""
    require(table, schema, what)
    said = [
        F.col(name) if name in table.columns else F.lit(None).cast("string").alias(name)
        for name in _SAID
    ]
    return table.select(*schema.names, *said)


def _packed_requests(
    requests: DataFrame, ticks: DataFrame | None, settings: StreamSettings
) -> DataFrame:
    checks = request_checks()
    if settings.route == BY_KEY:
        checks.append(("not one watch key, where shards are by key", F.size("watch_keys") != 1))
    flagged = _flagged(requests, checks, "arrived_at", ticks, settings)
    hashes = F.transform("watch_keys", lambda key: F.xxhash64("host", key))
    spread = F.xxhash64("host") if settings.route == BY_HOST else hashes[0]
    arrived = F.unix_micros("arrived_at")
    return _pack(
        flagged,
        rows.REQUESTS,
        spread,
        settings,
        {
            "id": F.xxhash64("host", "request_id"),
            "host": F.col("host"),
            "request_id": F.col("request_id"),
            "request_type": F.coalesce("request_type", F.lit("request")),
            "arrived_us": arrived,
            "deadline_us": arrived + F.col("timeout_ms").cast("bigint") * 1000,
            "keys": hashes,
            "aggregate": (F.array_position(F.lit(list(AGGREGATES)), F.col("aggregate")) - 1).cast(
                "tinyint"
            ),
            "threshold": F.col("threshold"),
            "every": F.col("quantifier") == "all",
            "watch_keys": F.col("watch_keys"),
        },
    )


def _packed_events(
    events: DataFrame, ticks: DataFrame | None, settings: StreamSettings
) -> DataFrame:
    flagged = _flagged(events, event_checks(), "occurred_at", ticks, settings)
    key = F.xxhash64("host", "key")
    return _pack(
        flagged,
        rows.EVENTS,
        F.xxhash64("host") if settings.route == BY_HOST else key,
        settings,
        {
            "key": key,
            "us": F.unix_micros("occurred_at"),
            "amount": F.col("amount"),
            "host": F.col("host"),
            "event_key": F.col("key"),
        },
    )


def _flagged(
    table: DataFrame,
    checks: list[tuple[str, Column]],
    time: str,
    ticks: DataFrame | None,
    settings: StreamSettings,
) -> DataFrame:
    """The table with its watermark, and with the reason where a row can't be used.

    Ticks are rows where `is_row` is null.
    """
    names = [name for name in table.columns if name not in _SAID]
    table = set_aside(table.withColumn("is_row", F.lit(True)), checks)
    table = table.withColumn(REASON_COLUMN, F.coalesce(CORRUPT, REASON_COLUMN))
    if ticks is not None:
        table = table.unionByName(ticks.select(F.col("at").alias(time)), allowMissingColumns=True)
    # A time that can't be used must not move the watermark either.
    table = table.withColumn("moves", F.when(F.col(REASON_COLUMN).isNull(), F.col(time)))
    table = table.withWatermark("moves", f"{settings.delay_ms} milliseconds")
    as_json = F.when(
        F.col(REASON_COLUMN).isNotNull(), F.to_json(F.struct(*names), dict(JSON_TIMES))
    )
    return table.withColumn(
        "row", F.when(F.col(CORRUPT).isNotNull(), F.col(RAW)).otherwise(as_json)
    )


def _pack(
    table: DataFrame,
    kind: str,
    spread: Column,
    settings: StreamSettings,
    columns: dict[str, Column],
) -> DataFrame:
    # Rows that can't be used may lack what they would be spread by; any shard will tell of them.
    shard = (
        F.when(F.col(REASON_COLUMN).isNull(), F.pmod(spread, F.lit(settings.shards)))
        .otherwise(0)
        .cast("int")
    )
    known = [
        F.col("is_row"),
        shard.alias("shard"),
        F.col(REASON_COLUMN).alias("reason"),
        F.col("row"),
        F.col(SOURCE),
    ]
    names = tuple((REQUESTS if kind == rows.REQUESTS else EVENTS).names)
    wanted = table.select(*known, *[column.alias(name) for name, column in columns.items()])

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle_worker()
        for batch in batches:
            # Ticks have done their part. (A filter in Spark would be moved to before the watermark
            # is taken.)
            batch = batch.filter(batch.column("is_row"))
            for file in batch.column(SOURCE).drop_null().unique().to_pylist():
                require_parquet_columns(file, names)
            good = batch.column("reason").is_null()
            found = [
                *rows.pack(batch.filter(good), kind),
                *rows.pack(batch.filter(batch.column("reason").is_valid()), rows.REJECTS),
            ]
            if found:
                yield pa.RecordBatch.from_pylist(found, rows.PACKED)

    return wanted.mapInArrow(packed, _PACKED)


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    settle_worker()
    for batch in batches:
        for blob in batch.column("blob").to_pylist():
            yield from rows.from_blob(blob).to_batches()
