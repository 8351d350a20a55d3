"""Estimate the memory that each host of a trace takes in a Python worker, and enforce a limit.

One task handles all requests and events of a host, so they have to fit into one worker. The batch
job handles the hosts of a shard together (`outcomes.shards`), of which there are hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._rows.schema import IDENTITY
from purgatory_spark._rows.stored_sizes import StoredSizes
from request_purgatory.errors import InvalidArgumentError

#: The default limit of a Python worker's memory, in MiB.
MAX_WORKER_MB = 2048

_MB = 2**20
#: Error messages name this many hosts or keys at most.
_MAX_NAMED = 3
#: Of hosts that are at most this part of what fits into a worker, too many in one shard are very
#: improbable. Larger ones get a shard each.
_HOSTS_IN_SHARD = 16


class HostTooLargeError(ValueError):
    """A host's rows do not fit into a Python worker; the message names the host and the remedy."""


@dataclass(frozen=True)
class MemoryModel:
    """The memory that a Python worker takes for one host, in bytes, as a linear model.

    The estimates of a replay exceed the measured peak of resident memory by 8 to 70 %. Measured
    were hosts of 0.2 to 3 million requests, with names of 12 and 60 characters, and with few and
    all requests pending. Each request had one or three watch keys, and no or ten events.

    Those of the batch exceed the peak of the same work outside Spark by 50 to 65 %. Measured were
    hosts of 1 million requests with one and three watch keys, and an event for each key.
    """

    task: str
    worker: int
    request: int
    watch_key: int
    event: int
    character: float

    def bytes_of(self, sizes: StoredSizes) -> float:
        """Return what all hosts take, if one worker had them all."""
        return (
            sizes.requests * self.request
            + sizes.keys * self.watch_key
            + sizes.events * self.event
            + sizes.text_bytes * self.character
        )


BATCH = MemoryModel(
    "computing outcomes", worker=170 * _MB, request=120, watch_key=280, event=130, character=1.0
)
# How many requests of a host are pending at once is unknown before the replay, so it is taken to be
# all of them.
REPLAY = MemoryModel(
    "a replay", worker=170 * _MB, request=690, watch_key=360, event=160, character=2.6
)


def fit_together(sizes: StoredSizes | None, model: MemoryModel, max_worker_mb: int) -> bool:
    """Return whether all hosts fit into one worker, as far as is known without reading rows."""
    available = _available_bytes(model, max_worker_mb)
    return sizes is not None and model.bytes_of(sizes) <= available


def require_hosts_fit(
    requests: DataFrame, events: DataFrame | None, model: MemoryModel, max_worker_mb: int
) -> None:
    """Check that every host fits into a Python worker, in one pass over both tables.

    Without events, the end of a request is an event on each of its keys.
    """
    is_large = F.col("bytes") > _available_bytes(model, max_worker_mb)
    hosts = _totals(requests, events, model).where(is_large).orderBy(F.desc("bytes"))
    large = hosts.limit(_MAX_NAMED).collect()
    if large:
        raise HostTooLargeError(
            f"{_describe(large)}: more than max_worker_mb={max_worker_mb:,}, and {model.task} "
            "can't split a host. Give tasks more memory, or split the host into several names"
        )


@dataclass(frozen=True)
class TraceSizes:
    """The sizes of a trace, from one pass over its tables."""

    parts: dict[str, int]
    mean_keys: float
    timeouts_ms: tuple[int, int]


def measure_trace(requests: DataFrame, events: DataFrame | None, max_worker_mb: int) -> TraceSizes:
    """Measure a trace, and the parts by watch key that the batch must split large hosts into.

    If all hosts together don't fit into a worker, the larger ones that fit are one part each, since
    several of them could be in the same shard. Other hosts have no parts. A host that is too large
    takes a second pass over both tables. Without events, those are the ends of requests.
    """
    available = _available_bytes(BATCH, max_worker_mb)
    own_shard = available // _HOSTS_IN_SHARD
    host = F.struct("host", "requests", "events", "most_keys", "bytes")
    row = (
        _totals(requests, events, BATCH)
        .agg(
            (F.sum("keys") / F.sum("requests")).alias("mean_keys"),
            F.min("shortest_ms").alias("shortest_ms"),
            F.max("longest_ms").alias("longest_ms"),
            F.sum("bytes").alias("bytes"),
            F.collect_list(F.when(F.col("bytes") > own_shard, host)).alias("hosts"),
        )
        .first()
    )
    assert row is not None
    parts: dict[str, int] = {}
    if (row["bytes"] or 0) > available:
        hosts = sorted(row["hosts"], key=lambda sized: (-sized["bytes"], sized["host"]))
        large = [sized for sized in hosts if sized["bytes"] > available]
        if large:
            _require_divisible(requests, events, large, max_worker_mb)
        # Equal parts would need half as many. But keys differ in size, and are assigned at random.
        parts = {
            sized["host"]: 2 * -(-sized["bytes"] // available) if sized["bytes"] > available else 1
            for sized in hosts
        }
    shortest_ms, longest_ms = row["shortest_ms"] or 0, row["longest_ms"] or 0
    return TraceSizes(parts, row["mean_keys"] or 0.0, (shortest_ms, longest_ms))


def _require_divisible(
    requests: DataFrame, events: DataFrame | None, large: list[Row], max_worker_mb: int
) -> None:
    with_several_keys = [row for row in large if row["most_keys"] > 1]
    if with_several_keys:
        raise HostTooLargeError(
            f"{_describe(with_several_keys[:_MAX_NAMED])}: more than "
            f"max_worker_mb={max_worker_mb:,}, and a host can't be split by watch key if a request "
            "has several keys. Give tasks more memory, or split the host into several names"
        )
    available = _available_bytes(BATCH, max_worker_mb)
    is_large = F.col("host").isin([row["host"] for row in large])
    of_large = None if events is None else events.where(is_large)
    by_key = _totals(requests.where(is_large), of_large, BATCH, by_key=True)
    too_large = by_key.where(F.col("bytes") > available).orderBy(F.desc("bytes"))
    hot = too_large.limit(_MAX_NAMED).collect()
    if hot:
        keys = ", ".join(repr(row["key"]) for row in hot)
        raise HostTooLargeError(
            f"{_describe(hot)} for the key {keys} alone: more than max_worker_mb="
            f"{max_worker_mb:,}, and the requests of one key can't be split. Give tasks more "
            "memory and raise max_worker_mb, or split the key into several names"
        )


def _available_bytes(model: MemoryModel, max_worker_mb: int) -> int:
    available = max_worker_mb * _MB - model.worker
    if available <= 0:
        raise InvalidArgumentError(
            "max_worker_mb",
            f"more than {model.worker // _MB}, which a worker takes without any row",
            max_worker_mb,
        )
    return available


def _totals(
    requests: DataFrame, events: DataFrame | None, model: MemoryModel, *, by_key: bool = False
) -> DataFrame:
    """Sum up rows and bytes by host, or by host and key, where a request counts for its first key.

    `most_keys` is the largest number of keys of one request. Timeouts are null without requests.
    """
    keys = F.greatest(F.coalesce(F.size("watch_keys"), F.lit(0)), F.lit(0))
    first_key = [F.get("watch_keys", F.lit(0)).alias("key")] if by_key else []
    key_octets = _octets(F.concat_ws("", "watch_keys"))
    octets = reduce(Column.__add__, [_octets(F.col(name)) for name in IDENTITY], key_octets)
    size = model.request + keys * model.watch_key + octets * model.character
    ended = F.lit(0)
    if events is None:
        ended = keys
        size += keys * model.event + key_octets * model.character
    key = ["key"] if by_key else []
    counts = ["requests", "events", "keys"]
    rows = requests.select(
        "host",
        *first_key,
        F.lit(1).alias("requests"),
        ended.alias("events"),
        keys.alias("keys"),
        "timeout_ms",
        size.alias("bytes"),
    )
    if events is not None:
        event_size = model.event + _octets(F.col("key")) * model.character
        of_events = events.select("host", *key, F.lit(1).alias("events"), event_size.alias("bytes"))
        rows = rows.unionByName(of_events, allowMissingColumns=True).fillna(0, counts)
    return rows.groupBy("host", *key).agg(
        *[F.sum(name).alias(name) for name in counts],
        F.max("keys").alias("most_keys"),
        F.min("timeout_ms").alias("shortest_ms"),
        F.max("timeout_ms").alias("longest_ms"),
        F.sum("bytes").cast("bigint").alias("bytes"),
    )


def _octets(text: Column) -> Column:
    return F.coalesce(F.octet_length(text), F.lit(0))


def _describe(rows: list[Row]) -> str:
    return ", ".join(
        f"host {row['host']!r} has {row['requests']:,} requests and {row['events']:,} events, "
        f"about {row['bytes'] / _MB:,.0f} MB"
        for row in rows
    )
