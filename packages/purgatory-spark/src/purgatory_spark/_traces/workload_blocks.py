"""Draw the rows of synthetic workloads in blocks, each from its own random stream.

A block depends on the seed and on its number only. So the rows are the same for every partitioning,
and a longer workload begins with the requests of a shorter one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._rows.schema import EVENTS, REQUESTS
from purgatory_spark._spark.arrays import Floats, Ints
from purgatory_spark._spark.schemas import batch_to_micros, from_micros, micros_schema
from purgatory_spark._spark.session import parallelism
from purgatory_spark._traces.workload import START, Workload, host_name

#: Requests per block.
BLOCK = 65_536

#: Requests per block if hosts are drawn independently. The blocks are smaller, as the few blocks in
#: memory are of one host.
HOST_BLOCK = 8_192

#: The number of the random stream for the blocks' durations; no block has this number.
_DURATIONS = 2**64 - 1

_US = 1_000_000


def workload_trace(
    spark: SparkSession, workload: Workload, *, partitions: int | None = None
) -> tuple[DataFrame, DataFrame]:
    """Return the requests and events of a workload.

    Each table is computed in one pass without a shuffle. The rows do not depend on the number of
    partitions.

    Args:
        spark: The session.
        workload: The workload.
        partitions: Number of tasks, at most the number of blocks; None means Spark's default
            parallelism.

    Returns:
        The requests (`schema.REQUESTS`) and the events (`schema.EVENTS`).
    """
    make: Callable[[int], Block]
    blocks = _block_count(workload)
    if workload.host_by_host:
        per_host = blocks
        blocks *= workload.hosts

        def make(number: int) -> Block:
            host, block = divmod(number, per_host)
            return _draw_block(workload, block, _block_bounds_s(workload, block + 1, host), host)

    else:
        bounds_s = _block_bounds_s(workload, blocks)

        def make(number: int) -> Block:
            return _draw_block(workload, number, bounds_s)

    partitions = min(blocks, partitions or parallelism(spark))
    numbers = spark.range(0, blocks, 1, partitions)

    def table(rows_of: Callable[[Block], pa.RecordBatch], schema: T.StructType) -> DataFrame:
        def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield batch_to_micros(rows_of(make(number)))

        return from_micros(numbers.mapInArrow(draw, micros_schema(schema)), schema)

    return table(Block.requests, REQUESTS), table(Block.events, EVENTS)


def host_blocks(workload: Workload, host: int) -> Iterator[Block]:
    """Draw the blocks of one host, in order of their arrivals.

    A block's events may occur at any time after its requests, also after requests of later blocks.
    """
    blocks = _block_count(workload)
    bounds_s = _block_bounds_s(workload, blocks, host)
    for block in range(blocks):
        yield _draw_block(workload, block, bounds_s, host)


@dataclass(frozen=True)
class Block:
    """The requests of a block and their events, as arrays with one element per request.

    Attributes:
        end_us: The time of the last arrival, in microseconds since the epoch. Requests of later
            blocks arrive at this time or later.
        arrived_us: Times of the arrivals in ascending order, in microseconds since the epoch.
        service_us: Times from each arrival to its event, in microseconds.
        shared: Numbers of the shared keys that each request watches, of shape (requests,
            `shared_keys`).
    """

    workload: Workload
    end_us: int
    arrived_us: Ints
    service_us: Ints
    hosts: pa.StringArray
    ids: pa.StringArray
    shared: Ints

    @property
    def occurred_us(self) -> Ints:
        """Times of the requests' events, in microseconds since the epoch."""
        return self.arrived_us + self.service_us

    def requests(self) -> pa.RecordBatch:
        workload = self.workload
        count = len(self.arrived_us)
        keys_per_request = 1 + workload.shared_keys
        shared_keys = pc.binary_join_element_wise(
            "key", pa.array(np.arange(workload.keys)).cast(pa.string()), "-"
        )
        names = pa.concat_arrays([self.own_keys(), shared_keys])
        # A row per request: the positions in `names` of its own key and of its shared keys.
        positions = np.column_stack([np.arange(count), count + self.shared]).ravel()
        watch_keys = pa.ListArray.from_arrays(
            pa.array(np.arange(0, count * keys_per_request + 1, keys_per_request), pa.int32()),
            names.take(pa.array(positions)),
        )
        return _batch(
            REQUESTS,
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
            },
        )

    def events(self) -> pa.RecordBatch:
        return _batch(
            EVENTS,
            {
                "host": self.hosts,
                "key": self.own_keys(),
                "occurred_at": _timestamps(self.occurred_us),
                "amount": pa.repeat(float(self.workload.amount), len(self.arrived_us)),
            },
        )

    def own_keys(self) -> pa.StringArray:
        """Return the key of each request's own event, which no other request watches."""
        return pc.binary_join_element_wise("ack", self.ids, "-")


def _block_count(workload: Workload) -> int:
    """Return the number of blocks, of each host if hosts are drawn independently."""
    if workload.host_by_host:
        return -(-workload.requests // workload.hosts // HOST_BLOCK)
    return -(-workload.requests // BLOCK)


def _block_bounds_s(workload: Workload, blocks: int, host: int | None = None) -> Floats:
    """Draw the times at which blocks end.

    The time of the n-th arrival of a Poisson process is a sum of n exponential gaps, so the
    duration of a block is gamma-distributed.

    Returns `blocks + 1` times in seconds since the start of the trace. Block k arrives between
    elements k and k + 1.
    """
    size, rate = (
        (BLOCK, workload.rate) if host is None else (HOST_BLOCK, workload.rate / workload.hosts)
    )
    durations = _random(workload.seed, _DURATIONS, host).gamma(size, 1 / rate, blocks)
    return np.concatenate([[0.0], np.cumsum(durations)])


def _random(seed: int, stream: int, host: int | None = None) -> np.random.Generator:
    # Hosts differ in the counter's highest word, which no stream is long enough to change.
    counter = np.array([0, 0, 0, 0 if host is None else host + 1], dtype=np.uint64)
    return np.random.Generator(
        np.random.Philox(key=np.array([seed, stream], dtype=np.uint64), counter=counter)
    )


def _draw_block(workload: Workload, block: int, bounds_s: Floats, host: int | None = None) -> Block:
    size, requests = (
        (BLOCK, workload.requests)
        if host is None
        else (HOST_BLOCK, workload.requests // workload.hosts)
    )
    random = _random(workload.seed, block, host)
    start_s, end_s = bounds_s[block], bounds_s[block + 1]
    # Given the time of a Poisson process's n-th arrival, the n - 1 arrivals before it are
    # independent and uniform.
    arrived_s = np.append(np.sort(random.uniform(start_s, end_s, size - 1)), end_s)
    service_ms = random.lognormal(math.log(workload.median_ms), workload.sigma, size)
    # A whole block is drawn and then cut, so the rows of the last block do not depend on where the
    # workload ends.
    count = min(size, requests - block * size)
    if host is None:
        names = pa.array([host_name(workload, number) for number in range(workload.hosts)])
        hosts = names.take(pa.array(random.integers(0, workload.hosts, size)[:count]))
    else:
        hosts = pa.repeat(host_name(workload, host), count)
    shared = random.integers(0, workload.keys, (size, workload.shared_keys))
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


def _timestamps(us: Ints) -> pa.Array:
    return pa.array(us, pa.timestamp("us", tz="UTC"))


def _batch(schema: T.StructType, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    absent = pa.nulls(len(columns["host"]), pa.string())
    return pa.RecordBatch.from_arrays(
        [columns.get(name, absent) for name in schema.names], names=schema.names
    )
