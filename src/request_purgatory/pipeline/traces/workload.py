"""The published workload: Poisson arrivals, log-normal service times, reproducible from a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.spark.session import parallelism
from request_purgatory.pipeline.traces.schema import EVENTS, LONGEST_TIMEOUT_MS, REQUESTS

#: Arrivals are drawn in blocks of this many, each from (seed, block) alone; so no partitioning
#: changes a row.
BLOCK = 65_536

#: As many where hosts are drawn apart: a host's trace is made block by block, and few of them are
#: in memory.
HOST_BLOCK = 8_192

#: Distance of a normal distribution's 75th percentile from its median, in standard deviations.
_Z75 = 0.6744897501960817

#: The key of the random stream that the blocks' lengths come from; no block has this number.
_LENGTHS = 2**64 - 1

_US = 1_000_000

#: Workloads end before the calendar does.
_LONGEST_S = 100 * 365 * 86_400


@dataclass(frozen=True)
class Workload:
    """A synthetic trace: how it is made, and so what it holds.

    Each request waits for one event of its own (its acknowledgement) and is watched under
    `shared_keys` more keys out of a pool, on which nothing happens: what completed stays there
    until it is purged, as in the benchmark that Kafka's purgatory was published with.

    Attributes:
        name: shown in reports.
        median_ms, p75_ms: the service time's log-normal distribution, by its median and 75th
            percentile.
        requests: how many.
        rate: arrivals a second, over all hosts.
        hosts: how many processes the requests are spread over, evenly at random.
        keys: size of a host's pool of shared keys.
        shared_keys: under how many of them each request is watched, 0 for none.
        timeout_ms: each request's timeout.
        amount: bytes of each event.
        seed: everything random follows from it.
        host_by_host: give every host a Poisson process of its own with an equal share of the
            requests and of the rate, drawn from (seed, host, block): so one host's trace is made
            without the others', in blocks. Otherwise all arrivals are one process, and each goes to
            a host at random.
    """

    name: str = "low"
    median_ms: float = 20.0
    p75_ms: float = 60.0
    requests: int = 1_000_000
    rate: float = 20_000.0
    hosts: int = 8
    keys: int = 1_000
    shared_keys: int = 2
    timeout_ms: int = 200
    amount: float = 100.0
    seed: int = 1
    host_by_host: bool = False

    def __post_init__(self) -> None:
        for field in ("requests", "hosts", "keys"):
            if getattr(self, field) < 1:
                raise InvalidArgumentError(field, "at least 1", getattr(self, field))
        for field in ("shared_keys", "timeout_ms", "seed"):
            if getattr(self, field) < 0:
                raise InvalidArgumentError(field, "at least 0", getattr(self, field))
        if self.host_by_host and self.requests % self.hosts:
            raise InvalidArgumentError(
                "requests", f"a multiple of the hosts ({self.hosts:,})", self.requests
            )
        if self.timeout_ms > LONGEST_TIMEOUT_MS:
            raise InvalidArgumentError(
                "timeout_ms", f"at most {LONGEST_TIMEOUT_MS:,}", self.timeout_ms
            )
        if self.seed >= 2**64:
            raise InvalidArgumentError("seed", "below 2**64", self.seed)
        if not (self.rate > 0 and math.isfinite(self.rate)):
            raise InvalidArgumentError("rate", "a positive number of requests a second", self.rate)
        if self.requests / self.rate > _LONGEST_S:
            raise InvalidArgumentError(
                "rate", f"enough for {self.requests:,} requests in a hundred years", self.rate
            )
        if not 0 < self.median_ms < self.p75_ms:
            raise InvalidArgumentError(
                "median_ms", f"positive and below p75_ms ({self.p75_ms})", self.median_ms
            )

    @property
    def sigma(self) -> float:
        """Standard deviation of the service time's logarithm."""
        return math.log(self.p75_ms / self.median_ms) / _Z75

    @property
    def expected_expired_share(self) -> float:
        """The share of requests that expire, by the distribution.

        That of service times beyond the timeout.
        """
        if self.timeout_ms == 0:
            return 1.0
        z = (math.log(self.timeout_ms) - math.log(self.median_ms)) / self.sigma
        return 0.5 * math.erfc(z / math.sqrt(2))

    @property
    def expected_wait_ms(self) -> float:
        """The mean time that a request waits, by the distribution.

        The service time or the timeout, whichever is less.
        """
        if self.timeout_ms == 0:
            return 0.0
        z = (math.log(self.timeout_ms) - math.log(self.median_ms)) / self.sigma
        served_in_time = 0.5 * math.erfc((self.sigma - z) / math.sqrt(2))
        return (
            self.expected_service_ms * served_in_time
            + self.timeout_ms * self.expected_expired_share
        )

    @property
    def expected_service_ms(self) -> float:
        """The mean service time, by the distribution."""
        return self.median_ms * math.exp(self.sigma**2 / 2)

    def parameters(self) -> dict[str, Any]:
        """All fields, for the record."""
        return asdict(self)


#: The two published cases: with 20/60 ms about 8 % of the requests run into the timeout of 200 ms,
#: with 200/400 ms half of them.
LOW_TIMEOUT = Workload(name="low", median_ms=20.0, p75_ms=60.0)
HIGH_TIMEOUT = Workload(name="high", median_ms=200.0, p75_ms=400.0)
CASES = {case.name: case for case in (LOW_TIMEOUT, HIGH_TIMEOUT)}


def cluster_workload(
    case: Workload, *, hosts: int, requests_per_host: int, rate_per_host: float, **chosen: Any
) -> Workload:
    """A workload like `case` whose hosts are drawn apart, so many requests and arrivals a second on each of them.

    Args:
        chosen: other fields of `Workload`.

    Raises:
        InvalidArgumentError: a field is outside what is allowed.
    """
    if not (rate_per_host > 0 and math.isfinite(rate_per_host)):
        raise InvalidArgumentError(
            "rate_per_host", "a positive number of requests a second", rate_per_host
        )
    for name, value in (("hosts", hosts), ("requests_per_host", requests_per_host)):
        if value < 1:
            raise InvalidArgumentError(name, "at least 1", value)
    requests, rate = hosts * requests_per_host, hosts * rate_per_host
    return replace(case, hosts=hosts, requests=requests, rate=rate, host_by_host=True, **chosen)


#: When synthetic traces begin.
START = datetime(2024, 1, 1, tzinfo=UTC)


def workload_trace(
    spark: SparkSession, workload: Workload, *, partitions: int | None = None
) -> tuple[DataFrame, DataFrame]:
    """The workload's requests and events, of the schemas `REQUESTS` and `EVENTS`.

    One pass each, no shuffle, and the same rows whatever the number of partitions. A longer
    workload of the same seed begins with the shorter one's requests.

    Args:
        partitions: how many tasks make it; Spark's default parallelism unless given, and never more
            than there are blocks.
    """
    make: Callable[[int], Block]
    if workload.host_by_host:
        per_host = _block_count(workload)
        blocks = workload.hosts * per_host

        def make(number: int) -> Block:
            host, block = divmod(number, per_host)
            return _host_block(workload, host, block, _block_bounds_s(workload, block + 1, host))
    else:
        blocks = _block_count(workload)
        bounds_s = _block_bounds_s(workload, blocks)

        def make(number: int) -> Block:
            return _draw_block(workload, number, bounds_s[number], bounds_s[number + 1])

    partitions = min(blocks, partitions or parallelism(spark))
    numbers = spark.range(0, blocks, 1, partitions)

    def requests(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _blocks(batches):
            yield make(number).requests()

    def events(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _blocks(batches):
            yield make(number).events()

    return numbers.mapInArrow(requests, REQUESTS), numbers.mapInArrow(events, EVENTS)


def host_blocks(workload: Workload, host: int) -> Iterator[Block]:
    """One host's trace of a workload that is drawn `host_by_host`, in blocks in the order of their arrivals.

    A block's events may be any time after its requests, also after those of later blocks.
    """
    blocks = _block_count(workload)
    bounds_s = _block_bounds_s(workload, blocks, host)
    for block in range(blocks):
        yield _host_block(workload, host, block, bounds_s)


def host_name(workload: Workload, host: int) -> str:
    """What the traces call a host, by its number."""
    return f"host-{host:0{len(str(workload.hosts - 1))}d}"


def _block_count(workload: Workload) -> int:
    """How many blocks there are: in all, or of each host where those are drawn apart."""
    if workload.host_by_host:
        return -(-workload.requests // workload.hosts // HOST_BLOCK)
    return -(-workload.requests // BLOCK)


def _block_bounds_s(
    workload: Workload, blocks: int, host: int | None = None
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Where the blocks begin, in seconds from the trace's begin, and where the last one ends."""
    size, rate = (
        (BLOCK, workload.rate) if host is None else (HOST_BLOCK, workload.rate / workload.hosts)
    )
    lengths = _stream(workload.seed, _LENGTHS, host).gamma(size, 1 / rate, blocks)
    return np.concatenate([[0.0], np.cumsum(lengths)])


def _host_block(
    workload: Workload, host: int, block: int, bounds_s: np.ndarray[Any, np.dtype[np.float64]]
) -> Block:
    return _draw_block(workload, block, bounds_s[block], bounds_s[block + 1], host)


def _blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _stream(seed: int, stream: int, host: int | None = None) -> np.random.Generator:
    # The counter's highest word tells the hosts apart, and no draw comes so far as to move it.
    counter = np.array([0, 0, 0, 0 if host is None else host + 1], dtype=np.uint64)
    return np.random.Generator(
        np.random.Philox(key=np.array([seed, stream], dtype=np.uint64), counter=counter)
    )


@dataclass(frozen=True)
class Block:
    """The draws of one block, as arrays with an element a request.

    Attributes:
        workload: whose block it is.
        end_us: no request of a later block arrives before it, nor one of this block after it;
            microseconds since the epoch.
        arrived_us: when the requests arrive, in order.
        service_us: how long after that each one's event comes.
        hosts, ids: each request's host and id.
        shared: the numbers of the shared keys that each request watches.
    """

    workload: Workload
    end_us: int
    arrived_us: np.ndarray[Any, np.dtype[np.int64]]
    service_us: np.ndarray[Any, np.dtype[np.int64]]
    hosts: pa.StringArray
    ids: pa.StringArray
    shared: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def occurred_us(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """When each request's event happens."""
        return self.arrived_us + self.service_us

    def requests(self) -> pa.RecordBatch:
        """Rows of `REQUESTS`."""
        workload = self.workload
        count = len(self.arrived_us)
        keys = 1 + workload.shared_keys
        names = pc.binary_join_element_wise(
            "key", pa.array(np.arange(workload.keys)).cast(pa.string()), "-"
        )
        flat = pa.concat_arrays([self.own_keys(), names])
        # Each row of `flat`'s positions: the request's own key, then its shared ones.
        positions = np.column_stack([np.arange(count), count + self.shared]).ravel()
        watch_keys = pa.ListArray.from_arrays(
            pa.array(np.arange(0, count * keys + 1, keys), pa.int32()),
            flat.take(pa.array(positions)),
        )
        return _batch(
            {
                "host": self.hosts,
                "request_id": self.ids,
                "request_type": pa.repeat(workload.name, count),
                "arrived_at": _timestamps(self.arrived_us),
                "timeout_ms": pa.repeat(pa.scalar(workload.timeout_ms, pa.int32()), count),
                "watch_keys": watch_keys,
                "aggregate": pa.repeat("count", count),
                "threshold": pa.repeat(1.0, count),
                "quantifier": pa.repeat("any", count),
            }
        )

    def events(self) -> pa.RecordBatch:
        """Rows of `EVENTS`."""
        return _batch(
            {
                "host": self.hosts,
                "key": self.own_keys(),
                "occurred_at": _timestamps(self.occurred_us),
                "amount": pa.repeat(float(self.workload.amount), len(self.arrived_us)),
            }
        )

    def own_keys(self) -> pa.StringArray:
        """The key that each request alone watches, and its event is of."""
        return pc.binary_join_element_wise("ack", self.ids, "-")


def _draw_block(
    workload: Workload, block: int, start_s: float, end_s: float, host: int | None = None
) -> Block:
    size, requests = (
        (BLOCK, workload.requests)
        if host is None
        else (HOST_BLOCK, workload.requests // workload.hosts)
    )
    draw = _stream(workload.seed, block, host)
    # Given when the block's last arrival comes, those before it are uniform: together exactly a
    # Poisson process.
    arrived_s = np.append(np.sort(draw.uniform(start_s, end_s, size - 1)), end_s)
    service_ms = draw.lognormal(math.log(workload.median_ms), workload.sigma, size)
    host_numbers = draw.integers(0, workload.hosts, size) if host is None else None
    shared = draw.integers(0, workload.keys, (size, workload.shared_keys))
    # Every draw is of the whole block, and cut afterwards: the last block's rows do not depend on
    # where the workload ends.
    count = min(size, requests - block * size)
    if host_numbers is None:
        hosts = pa.repeat(host_name(workload, host or 0), count)
    else:
        hosts = pa.array([host_name(workload, number) for number in range(workload.hosts)]).take(
            pa.array(host_numbers[:count])
        )
    numbers = pa.array(np.arange(block * size, block * size + count)).cast(pa.string())
    start_us = int(START.timestamp()) * _US
    return Block(
        workload=workload,
        end_us=start_us + math.floor(end_s * _US),
        arrived_us=start_us + np.floor(arrived_s[:count] * _US).astype(np.int64),
        service_us=np.ceil(service_ms[:count] * 1000).astype(np.int64),
        hosts=hosts,
        ids=pc.utf8_lpad(numbers, 12, "0"),
        shared=shared[:count],
    )


def _timestamps(us: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    return pa.array(us, pa.timestamp("us", tz="UTC"))


def _batch(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
