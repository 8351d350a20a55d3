"""The streaming job: from requests and events to outcomes."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from purgatory_spark._errors import require_at_least, require_one_of
from purgatory_spark._rows.schema import EVENTS, REQUESTS, file_columns, require
from purgatory_spark._spark.files import CORRUPT, RAW, SOURCE
from purgatory_spark._spark.session import require_stream_settings
from purgatory_spark._spark.workers import require_local_python
from purgatory_spark._stream.packing import TIMED_SCHEMA, Packer, shard_labels
from purgatory_spark._stream.parquet_rows import FILE, FOLDER
from purgatory_spark._stream.processor import STEPPED, ShardProcessor, results_of, step_counts
from purgatory_spark._stream.progress import OBSERVED
from purgatory_spark._stream.state import rows

BY_HOST = "host"
BY_KEY = "key"
ROUTES = (BY_HOST, BY_KEY)

_PACKED = from_arrow_schema(TIMED_SCHEMA)
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
        require_one_of(ROUTES, route=self.route)
        require_at_least(1, shards=self.shards, max_shard_mb=self.max_shard_mb)
        require_at_least(
            0, watermark_delay_ms=self.watermark_delay_ms, key_retention_ms=self.key_retention_ms
        )


def delayed_operations(
    requests: DataFrame,
    events: DataFrame,
    *,
    settings: StreamSettings | None = None,
    ticks: DataFrame | None = None,
    even_shards: bool = False,
) -> DataFrame:
    """Return how every request of a stream ends, by the same rules as `batch_outcomes`.

    The outcomes are those of `batch_outcomes` on the same rows, row for row.

    Args:
        requests: a streaming DataFrame of `schema.REQUESTS`. Optional columns, named by constants
            of `rows.checks`, describe a row's source. A malformed row has the reason in `CORRUPT`.
            `RAW` has the text of a row, which is returned if the row is late or rejected. A row
            with nulls has the path of its Parquet file in `SOURCE`, and that file must have all
            columns. (`map_streams` makes such DataFrames of others.)
        events: a streaming DataFrame of `schema.EVENTS`, with the same optional columns.
        settings: None is the defaults.
        ticks: a streaming DataFrame with a column `at TIMESTAMP`. A row states that, apart from the
            watermark delay, neither input will have further rows before that time. So the
            watermark advances even while an input is quiet.
        even_shards: whether shards are spread evenly over Spark's partitions, which is faster. A
            checkpoint keeps the value that it began with, which is False for those of version
            0.1.0. (`run_stream` knows by itself.)

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
    require_local_python(requests.sparkSession)
    require_stream_settings(requests.sparkSession)
    labels = shard_labels(settings.shards, even=even_shards)
    packed = [
        _packed(table, schema, kind, labels, settings, ticks)
        for table, schema, kind in (
            (requests, REQUESTS, rows.REQUESTS),
            (events, EVENTS, rows.EVENTS),
        )
    ]
    never_late = F.timestamp_micros(F.lit(_NEVER_LATE_US)).alias(
        "never_late", metadata={_WATERMARK_MARK: 0}
    )
    marked = packed[0].unionByName(packed[1]).select("shard", "kind", "blob", never_late)
    processor = ShardProcessor(
        labels=labels,
        key_retention_ms=settings.key_retention_ms,
        max_shard_mb=settings.max_shard_mb,
    )
    stepped = marked.groupBy("shard").transformWithStateInPandas(
        processor, STEPPED, "append", "eventtime"
    )
    return results_of(stepped.observe(OBSERVED, *step_counts()))


def _packed(
    table: DataFrame,
    schema: T.StructType,
    kind: str,
    labels: tuple[int, ...],
    settings: StreamSettings,
    ticks: DataFrame | None,
) -> DataFrame:
    """Return an input's rows packed into blobs by shard, with the input's watermark."""
    described = [name for name in _SOURCE_COLUMNS if name in getattr(table, "columns", ())]
    is_files = getattr(table, "columns", ()) == [FILE]
    checked = table if is_files else require(table, schema, kind, described)
    source = next((name for name in (FILE, SOURCE) if is_files or name in described), None)
    metadata = {} if source is None else table.schema[source].metadata or {}
    packer = Packer(
        kind,
        labels,
        by_key=settings.route == BY_KEY,
        file_columns=tuple(metadata.get(FILE_COLUMNS, file_columns(schema))),
        folder=metadata.get(FOLDER),
    )
    packed = checked.mapInArrow(packer, _PACKED)
    timed = packed.select(
        "shard", "kind", "blob", F.timestamp_micros("event_us").alias("event_time")
    )
    delay = f"{settings.watermark_delay_ms} milliseconds"
    if ticks is None:
        return timed.withWatermark("event_time", delay)
    ticking = timed.unionByName(
        ticks.select(F.col("at").alias("event_time")), allowMissingColumns=True
    )
    # Ticks are no longer needed once the watermark is taken. Spark would move a filter without the
    # time to before that.
    is_packed = F.col("blob").isNotNull() | F.col("event_time").isNull()
    return ticking.withWatermark("event_time", delay).where(is_packed)
