"""The streaming job: from requests and events to outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.outcomes.results import RESULTS
from request_purgatory.pipeline.spark.arrow_times import (
    batch_to_micros,
    from_micros,
    micros_schema,
)
from request_purgatory.pipeline.spark.session import require_stream_settings
from request_purgatory.pipeline.spark.worker_gc import freeze_imported_objects
from request_purgatory.pipeline.stream.processor import ShardProcessor
from request_purgatory.pipeline.stream.progress import OBSERVED
from request_purgatory.pipeline.stream.state import rows
from request_purgatory.pipeline.traces.importers.row_checks import (
    CORRUPT,
    RAW,
    SOURCE,
    event_checks,
    flag_rejects,
    is_quorum,
    quorum,
    request_checks,
)
from request_purgatory.pipeline.traces.importers.row_checks import REASON as REASON_COLUMN
from request_purgatory.pipeline.traces.importers.table_files import require_parquet_columns
from request_purgatory.pipeline.traces.schema import (
    AGGREGATES,
    COMPLETED,
    EVENTS,
    EXPIRED,
    JSON_OPTIONS,
    REQUESTS,
    require,
)

BY_HOST = "host"
BY_KEY = "key"
ROUTES = (BY_HOST, BY_KEY)

_PACKED = T.StructType([
    T.StructField("shard", T.IntegerType()),
    T.StructField("kind", T.StringType()),
    T.StructField("blob", T.BinaryType()),
])
#: The value of a column that is marked as a watermarked event time, in microseconds since the
#: epoch: the year 2261. Spark needs such a column to run a stateful operator by event time, and
#: drops rows that are late by it. Shards find and report late rows themselves, so this one must
#: never be late. (pandas' timestamps end in 2262.)
_NEVER_LATE_US = 9_183_110_400_000_000
_WATERMARK_MARK = "spark.watermarkDelayMs"
#: Optional columns in which a source describes a row; see `delayed_operations`.
_SOURCE_COLUMNS = (CORRUPT, RAW, SOURCE)
#: A key of the metadata of the column `SOURCE`: the columns that each file must have.
FILE_COLUMNS = "purgatory.fileColumns"


@dataclass(frozen=True)
class StreamSettings:
    """How a stream is divided into shards, how long it waits for rows, and what it retains.

    Attributes:
        shards: the number of parts of the state. One task at a time works on a shard, and what the
            shard processes at once must fit the task's memory.
        route: how rows are assigned to shards: by host or by key. By key, each request must have
            exactly one watch key, and a host may be larger than a shard.
        watermark_delay_ms: how far rows may be out of order, in milliseconds. The watermark of each
            input is this far behind its latest time; a row at or before the watermark is late.
        key_retention_ms: how long an unwatched key is remembered after its last event, in
            milliseconds. Later requests with `max` or `sum` need its aggregates; a forgotten key
            starts again at 0.
        max_shard_mb: memory in MiB for the rows that a shard processes at once. It excludes a
            worker's own 200 MB, and the memory-mapped files of pending requests and key aggregates.
    """

    shards: int = 16
    route: str = BY_HOST
    watermark_delay_ms: int = 10_000
    key_retention_ms: int = 86_400_000
    max_shard_mb: int = 2048

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            InvalidArgumentError: a number is too small, or the route is unknown.
        """
        if self.route not in ROUTES:
            raise InvalidArgumentError("route", f"one of {', '.join(ROUTES)}", self.route)
        for name, least in (
            ("shards", 1),
            ("watermark_delay_ms", 0),
            ("key_retention_ms", 0),
            ("max_shard_mb", 1),
        ):
            if getattr(self, name) < least:
                raise InvalidArgumentError(name, f"at least {least}", getattr(self, name))


def delayed_operations(
    requests: DataFrame,
    events: DataFrame,
    *,
    settings: StreamSettings | None = None,
    ticks: DataFrame | None = None,
) -> DataFrame:
    """Return how every request of a stream ends, by the same rules as `batch_outcomes`.

    The outcomes are those of `batch_outcomes` on the same rows, row for row.

    Args:
        requests: a streaming DataFrame of `schema.REQUESTS`. Optional columns, named by constants
            of `row_checks`, describe a row's source. A malformed row has the reason in `CORRUPT`
            and its text in `RAW`. A row with nulls has the path of its Parquet file in `SOURCE`,
            and that file must have all columns. (`map_streams` makes such DataFrames of others.)
        events: a streaming DataFrame of `schema.EVENTS`, with the same optional columns.
        settings: None is the defaults.
        ticks: a streaming DataFrame with a column `at TIMESTAMP`. A row states that, apart from the
            watermark delay, neither input will have further rows before that time. So the
            watermark advances even while an input is quiet.

    Returns:
        A streaming DataFrame of `results.RESULTS`. Late and rejected rows have the `kind` "late".
        A completed request is returned once the watermark has
        passed the event that completed it, an expired one once it has passed the deadline.

    Raises:
        SchemaError: a column is missing or of another type.
        SessionSettingError: the session has a setting that does not suit; the message has the
            function that sets it.
    """
    settings = settings or StreamSettings()
    require_stream_settings(requests.sparkSession)
    packed = _packed_requests(
        _select_columns(requests, REQUESTS, "requests"), ticks, settings
    ).unionByName(_packed_events(_select_columns(events, EVENTS, "events"), ticks, settings))
    never_late = F.timestamp_micros(F.lit(_NEVER_LATE_US)).alias(
        "never_late", metadata={_WATERMARK_MARK: 0}
    )
    marked = packed.select("*", never_late)
    processor = ShardProcessor(
        key_retention_ms=settings.key_retention_ms, max_shard_mb=settings.max_shard_mb
    )
    blobs = marked.groupBy("shard").transformWithStateInPandas(
        processor,
        T.StructType([T.StructField("blob", T.BinaryType())]),
        "append",
        "eventtime",
    )
    results = from_micros(blobs.mapInArrow(_unpack, micros_schema(RESULTS)), RESULTS)
    changes = (rows.PENDING_CHANGE, rows.STATE_CHANGE)
    counts = {
        "completed": F.count_if(F.col("outcome") == COMPLETED),
        "expired": F.count_if(F.col("outcome") == EXPIRED),
        "late": F.count_if(F.col("kind") == "late"),
        **{
            f"{kind}_change": F.sum(F.when(F.col("kind") == kind, F.col("waited_ms")))
            for kind in changes
        },
    }
    observed = results.observe(OBSERVED, *[count.alias(name) for name, count in counts.items()])
    return observed.where(~F.col("kind").isin(*changes))


def _select_columns(table: DataFrame, schema: T.StructType, what: str) -> DataFrame:
    """Return the columns of `schema` and `_SOURCE_COLUMNS`, null where the source has none."""
    require(table, schema, what)
    optional = [
        F.col(name) if name in table.columns else F.lit(None).cast("string").alias(name)
        for name in _SOURCE_COLUMNS
    ]
    return table.select(*schema.names, *optional)


def _packed_requests(
    requests: DataFrame, ticks: DataFrame | None, settings: StreamSettings
) -> DataFrame:
    checks = request_checks()
    if settings.route == BY_KEY:
        checks.append(("not exactly one watch key (route by key)", F.size("watch_keys") != 1))
    checked = _checked(requests, checks, "arrived_at", ticks, settings)
    hashes = F.transform("watch_keys", lambda key: F.xxhash64("host", key))
    # With a number, a key that is listed several times counts once.
    keys = F.when(is_quorum(), F.array_distinct(hashes)).otherwise(hashes)
    needed = (
        F
        .when(F.col("quantifier") == "all", F.size("watch_keys"))
        .when(F.col("quantifier") == "any", 1)
        .otherwise(quorum())
    )
    shard_hash = F.xxhash64("host") if settings.route == BY_HOST else F.get(hashes, F.lit(0))
    arrived_us = F.unix_micros("arrived_at")
    return _pack(
        checked,
        rows.REQUESTS,
        shard_hash,
        settings,
        {
            "id": F.xxhash64("host", "request_id"),
            "host": F.col("host"),
            "request_id": F.col("request_id"),
            "request_type": F.coalesce("request_type", F.lit("request")),
            "arrived_us": arrived_us,
            "deadline_us": F.try_add(arrived_us, F.col("timeout_ms").cast("bigint") * 1000),
            "keys": keys,
            "aggregate": (F.array_position(F.lit(list(AGGREGATES)), F.col("aggregate")) - 1).cast(
                "tinyint"
            ),
            "threshold": F.col("threshold"),
            "needed": needed,
            "watch_keys": F.col("watch_keys"),
        },
        _file_columns(requests, REQUESTS),
    )


def _packed_events(
    events: DataFrame, ticks: DataFrame | None, settings: StreamSettings
) -> DataFrame:
    checked = _checked(events, event_checks(), "occurred_at", ticks, settings)
    key = F.xxhash64("host", "key")
    return _pack(
        checked,
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
        _file_columns(events, EVENTS),
    )


def _file_columns(table: DataFrame, schema: T.StructType) -> tuple[str, ...]:
    """Return the columns that the files of `SOURCE` must have: those of `schema`, unless mapped."""
    return tuple((table.schema[SOURCE].metadata or {}).get(FILE_COLUMNS, schema.names))


def _checked(
    table: DataFrame,
    checks: list[tuple[str, Column]],
    time: str,
    ticks: DataFrame | None,
    settings: StreamSettings,
) -> DataFrame:
    """Return the table with its watermark, the reasons of unusable rows, and the ticks.

    Args:
        table: from `_select_columns`.
        checks: reasons, and the conditions under which they apply.
        time: the column of event times.
        ticks: see `delayed_operations`; they are rows whose `is_row` is null.
        settings: the watermark's delay.

    Returns:
        The table with further columns: `is_row`, the reason, and `row`, an unusable row as text.
    """
    names = [name for name in table.columns if name not in _SOURCE_COLUMNS]
    table = flag_rejects(table.withColumn("is_row", F.lit(True)), checks)
    table = table.withColumn(REASON_COLUMN, F.coalesce(CORRUPT, REASON_COLUMN))
    if ticks is not None:
        table = table.unionByName(ticks.select(F.col("at").alias(time)), allowMissingColumns=True)
    # The time of an unusable row must not advance the watermark.
    table = table.withColumn("event_time", F.when(F.col(REASON_COLUMN).isNull(), F.col(time)))
    table = table.withWatermark("event_time", f"{settings.watermark_delay_ms} milliseconds")
    as_json = F.when(
        F.col(REASON_COLUMN).isNotNull(), F.to_json(F.struct(*names), dict(JSON_OPTIONS))
    )
    return table.withColumn(
        "row", F.when(F.col(CORRUPT).isNotNull(), F.col(RAW)).otherwise(as_json)
    )


def _pack(
    table: DataFrame,
    kind: str,
    shard_hash: Column,
    settings: StreamSettings,
    columns: dict[str, Column],
    file_columns: tuple[str, ...],
) -> DataFrame:
    """Return rows packed into blobs by shard, of `rows.PACKED_SCHEMA`.

    Args:
        table: from `_checked`.
        kind: the kind of input.
        shard_hash: what decides a row's shard.
        settings: the number of shards.
        columns: the columns of `rows.INPUT_SCHEMAS[kind]`.
        file_columns: the columns that the files of `SOURCE` must have.
    """
    # An unusable row may lack the columns that decide its shard. Any shard can report it.
    shard = (
        F
        .when(F.col(REASON_COLUMN).isNull(), F.pmod(shard_hash, F.lit(settings.shards)))
        .otherwise(0)
        .cast("int")
    )
    common = [
        F.col("is_row"),
        shard.alias("shard"),
        F.col(REASON_COLUMN).alias("reason"),
        F.col("row"),
        F.col(SOURCE),
    ]
    unpacked = table.select(*common, *[column.alias(name) for name, column in columns.items()])

    def pack_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_imported_objects()
        for batch in batches:
            # Ticks are no longer needed once the watermark is taken. Spark would move a filter of
            # its own to before that.
            batch = batch.filter(batch.column("is_row"))
            for file in batch.column(SOURCE).drop_null().unique().to_pylist():
                require_parquet_columns(file, file_columns)
            good = batch.column("reason").is_null()
            blobs = [
                *rows.pack_by_shard(batch.filter(good), kind),
                *rows.pack_by_shard(batch.filter(batch.column("reason").is_valid()), rows.REJECTS),
            ]
            if blobs:
                yield pa.RecordBatch.from_pylist(blobs, rows.PACKED_SCHEMA)

    return unpacked.mapInArrow(pack_batches, _PACKED)


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    freeze_imported_objects()
    for batch in batches:
        for blob in batch.column("blob").to_pylist():
            yield from map(batch_to_micros, rows.from_blob(blob).to_batches())
