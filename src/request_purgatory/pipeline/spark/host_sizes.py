"""How large hosts are.

What happens on one host meets in one Python worker, and has to fit there.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.errors import InvalidArgumentError

#: What one host may take in a Python worker, unless a command says otherwise.
MAX_WORKER_MB = 2048

_MB = 2**20
_TOLD = 3


class HostTooLargeError(ValueError):
    """One host's rows do not fit into a Python worker.

    The message names the host and says what would do.
    """


@dataclass(frozen=True)
class Need:
    """What a Python worker takes, in bytes: for itself, and for what it has of one host at a time.

    They come to 8 to 70 % more than the most resident memory that was measured, with 0.2 to 3
    million requests, names of 12 and of 60 characters, one key and three, no event and ten for each
    request, few pending and all.
    """

    what: str
    worker: int
    request: int
    watch_key: int
    event: int
    character: float


BATCH = Need(
    "computing outcomes", worker=170 * _MB, request=120, watch_key=220, event=130, character=1.0
)
# As if all requests of a host were pending at once, which nobody knows before.
REPLAY = Need("a replay", worker=170 * _MB, request=690, watch_key=360, event=160, character=2.6)
WHAT_IF = Need("what-if", worker=170 * _MB, request=140, watch_key=0, event=0, character=0.0)


def require_hosts_fit(
    requests: DataFrame, events: DataFrame, need: Need, max_worker_mb: int
) -> None:
    """See that every host fits into a Python worker of `max_worker_mb`; one pass over both tables.

    Raises:
        HostTooLargeError: one does not.
        InvalidArgumentError: `max_worker_mb` is less than a worker takes without a row.
    """
    large = _large_hosts(requests, events, need, max_worker_mb).limit(_TOLD).collect()
    if large:
        raise HostTooLargeError(
            f"{_sizes(large)}: more than max_worker_mb={max_worker_mb:,}, and {need.what} takes a host as a whole. "
            "Give tasks more memory, or name the hosts more finely"
        )


def parts_of_hosts(requests: DataFrame, events: DataFrame, max_worker_mb: int) -> dict[str, int]:
    """In how many parts by watch key `batch.satisfactions` has to cut hosts, so that each fits into a worker of `max_worker_mb`.

    One pass over both tables; a second one if a host is too large. A host that is not cut is not
    named.

    Raises:
        HostTooLargeError: a host can't be cut: requests of it watch several keys, or one key alone
            is too large.
        InvalidArgumentError: `max_worker_mb` is less than a worker takes without a row.
    """
    large = _large_hosts(requests, events, BATCH, max_worker_mb).collect()
    if not large:
        return {}
    several = [row for row in large if row["most_keys"] > 1]
    if several:
        raise HostTooLargeError(
            f"{_sizes(several[:_TOLD])}: more than max_worker_mb={max_worker_mb:,}, and it can't be cut by watch key, as it has "
            "requests with several. Give tasks more memory, or name the hosts more finely"
        )
    room = _room(BATCH, max_worker_mb)
    named = F.col("host").isin([row["host"] for row in large])
    by_key = _sums(requests.where(named), events.where(named), BATCH, by_key=True)
    hot = by_key.where(F.col("bytes") > room).orderBy(F.desc("bytes")).limit(_TOLD).collect()
    if hot:
        keys = ", ".join(repr(row["key"]) for row in hot)
        raise HostTooLargeError(
            f"{_sizes(hot)} for the key {keys} alone: more than max_worker_mb={max_worker_mb:,}"
        )
    # Twice as many as would do if all were alike: keys are of all sizes, and fall into parts at
    # random.
    return {row["host"]: 2 * -(-row["bytes"] // room) for row in large}


def _room(need: Need, max_worker_mb: int) -> int:
    room = max_worker_mb * _MB - need.worker
    if room <= 0:
        raise InvalidArgumentError(
            "max_worker_mb",
            f"more than {need.worker // _MB}, which a worker takes anyway",
            max_worker_mb,
        )
    return room


def _large_hosts(
    requests: DataFrame, events: DataFrame, need: Need, max_worker_mb: int
) -> DataFrame:
    room = _room(need, max_worker_mb)
    return _sums(requests, events, need).where(F.col("bytes") > room).orderBy(F.desc("bytes"))


def _sums(requests: DataFrame, events: DataFrame, need: Need, *, by_key: bool = False) -> DataFrame:
    """By host, or by host and key of requests that have one.

    Rows, bytes, and the most keys of a request.
    """
    keys = F.greatest(F.coalesce(F.size("watch_keys"), F.lit(0)), F.lit(0))
    by = [F.get("watch_keys", F.lit(0)).alias("key")] if by_key else []
    letters = _length(F.concat_ws("", "host", "request_id", "request_type", "watch_keys"))
    one = requests.select(
        "host",
        *by,
        _row(1, 0, keys, need.request + keys * need.watch_key + letters * need.character),
    )
    key = ["key"] if by_key else []
    two = events.select(
        "host", *key, _row(0, 1, F.lit(0), need.event + _length(F.col("key")) * need.character)
    )
    grouped = one.unionByName(two).groupBy("host", *key)
    counts = [F.sum(f"row.{name}").alias(name) for name in ("requests", "events")]
    return grouped.agg(
        *counts,
        F.max("row.keys").alias("most_keys"),
        F.sum("row.bytes").cast("bigint").alias("bytes"),
    )


def _row(requests: int, events: int, keys: Column, size: Column) -> Column:
    values = {
        "requests": F.lit(requests),
        "events": F.lit(events),
        "keys": keys,
        "bytes": size.cast("double"),
    }
    return F.struct(*[value.alias(name) for name, value in values.items()]).alias("row")


def _length(text: Column) -> Column:
    return F.coalesce(F.octet_length(text), F.lit(0))


def _sizes(rows: list[Row]) -> str:
    sizes = [
        f"host {row['host']!r} has {row['requests']:,} requests and {row['events']:,} events, about {row['bytes'] / _MB:,.0f} MB"
        for row in rows
    ]
    return ", ".join(sizes)
