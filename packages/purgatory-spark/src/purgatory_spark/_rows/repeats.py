"""The rule of repeated requests, shared by import, batch, replay and stream.

A request reserves its id, on its host, from its arrival to its deadline, even if it ends earlier. A
request that arrives in that time, or at the deadline, with the same host and id is *repeated*: it
is a reject, and reserves nothing. After the deadline the id may be used again. Requests are taken
in order of arrival, those of one instant in order of their deadlines. Of those that have both in
common, batch, replay and stream take the one with the least `tie_numbers`, which depends on the
rows alone, as does the order by their text in an import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._rows.checks import REASON, reject_hash
from purgatory_spark._rows.packing import hash_watch_keys, passed_columns
from purgatory_spark._spark.arrays import Bools, Ints, Words, one_chunk
from purgatory_spark._spark.hashes import hash_strings
from purgatory_spark._spark.schemas import from_micros, micros_schema, to_micros

#: The reason of a repeated request.
REPEATED = "repeated request"

#: Whether a row is the first good one of its host and id.
IS_FIRST = "_purgatory_is_first"
_ARRIVED = "_purgatory_arrived_us"
_DEADLINE = "_purgatory_deadline_us"
_OVERLAPS = "_purgatory_overlaps"
_IN_CHAIN = "_purgatory_in_chain"
#: The end of the reservation of an id that is free: before every time.
NOT_RESERVED_US = -(2**62)
_HELPERS = (_ARRIVED, _DEADLINE, _OVERLAPS, _IN_CHAIN)


def repeated_in_order(
    ids: Ints, arrived_us: Ints, deadline_us: Ints, reserved_until_us: Ints | None = None
) -> Bools:
    """Return which requests are repeated, of requests in order of arrival and deadline.

    Times are microseconds since the epoch. Below, the third request arrives while the first one
    reserves its id, and the fourth after that:

    >>> ids, arrived = np.array([7, 8, 7, 7]), np.array([0, 1, 5, 11])
    >>> repeated_in_order(ids, arrived, arrived + 10).tolist()
    [False, False, True, False]

    `reserved_until_us`: until when earlier requests reserve these ids; None if there are none.
    """
    if reserved_until_us is None:
        reserved_until_us = np.full(len(ids), NOT_RESERVED_US)
    repeated: Bools = arrived_us <= reserved_until_us
    _, inverse, count = np.unique(ids, return_inverse=True, return_counts=True)
    # Requests whose id occurs several times are checked one after the other.
    several = np.flatnonzero(count[inverse] > 1)
    reserved: dict[int, int] = {}
    for row in several.tolist():
        number = int(ids[row])
        until = reserved.get(number, int(reserved_until_us[row]))
        repeated[row] = arrived_us[row] <= until
        reserved[number] = until if repeated[row] else int(deadline_us[row])
    return repeated


def repeated_in_table(
    hosts: pa.ChunkedArray,
    request_ids: pa.ChunkedArray,
    arrived_us: Ints,
    deadline_us: Ints,
    ties_of: Callable[[Ints], Words],
) -> Bools:
    """Return which requests are repeated; they may be of several hosts, and in any order.

    `ties_of`: returns the `tie_numbers` of some rows.
    """
    repeated: Bools = np.zeros(len(request_ids), dtype=bool)
    ids, distinct = _numbered(request_ids)
    if distinct == len(ids):
        return repeated
    several = np.flatnonzero(np.bincount(ids)[ids] > 1)
    host_numbers, _ = _numbered(hosts)
    ids = host_numbers[several] * distinct + ids[several]
    arrived_us, deadline_us = arrived_us[several], deadline_us[several]
    order = order_of_requests(ids, arrived_us, deadline_us, lambda rows: ties_of(several[rows]))
    repeated[several[order]] = repeated_in_order(ids[order], arrived_us[order], deadline_us[order])
    return repeated


def order_of_requests(
    ids: Ints, arrived_us: Ints, deadline_us: Ints, ties_of: Callable[[Ints], Words]
) -> Ints:
    """Return the rows in the order in which requests reserve their ids.

    `ties_of`: returns the `tie_numbers` of some rows. It is called for those that are equal in all
    other columns, which are few.
    """
    order: Ints = np.lexsort((deadline_us, ids, arrived_us))
    equal = np.ones(max(0, len(order) - 1), dtype=bool)
    for column in (ids, arrived_us, deadline_us):
        equal &= column[order[1:]] == column[order[:-1]]
    if not equal.any():
        return order
    tied = order[np.append(equal, False) | np.append(False, equal)]
    ties: Words = np.zeros(len(order), dtype=np.uint64)
    ties[tied] = ties_of(tied)
    in_order: Ints = np.lexsort((ties, deadline_us, ids, arrived_us))
    return in_order


def tie_numbers(requests: pa.Table) -> Words:
    """Return a hash of each request, in columns of the schema, to order equal ids and times by.

    Watch keys are text, or hashes as `hash_watch_keys` makes them with `hash_strings`.
    """
    host = _text(requests.column("host"))
    hashes = hash_strings(host, np.zeros(len(host), dtype=np.uint64))
    watch_keys = one_chunk(requests.column("watch_keys"))
    if pa.types.is_string(watch_keys.type.value_type):
        watch_keys, _ = hash_watch_keys(watch_keys, hashes, hash_strings)
    columns = passed_columns(requests)
    for name in ("aggregate", "quantifier"):
        columns[name] = requests.column(name)
    for column in columns.values():
        hashes = hash_strings(_text(column), hashes)
    threshold = one_chunk(requests.column("threshold")).to_numpy() + 0.0
    hashes += threshold.view(np.uint64)
    starts = watch_keys.offsets.to_numpy()
    lengths = np.diff(starts)
    # A key counts by its position.
    position = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    keys = watch_keys.values.to_numpy()[starts[0] : starts[-1]]
    np.add.at(
        hashes,
        np.repeat(np.arange(len(lengths)), lengths),
        keys * (2 * position + 1).astype(np.uint64),
    )
    return hashes


def _text(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return one_chunk(column).cast(pa.string())


def _numbered(names: pa.ChunkedArray) -> tuple[Ints, int]:
    """Return a number for each name, equal for equal ones, and how many there are."""
    # Unifying the dictionaries of chunks takes many times as long as encoding the names.
    encoded = pa.concat_arrays([*names.chunks, pa.array([], names.type)]).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def mark_chains(
    table: DataFrame, arrived_us: Column, deadline_us: Column, order: list[str]
) -> DataFrame:
    """Mark good rows that may be repeated; `flag_repeated` then decides.

    Persist the result if several data frames are computed from it. Times are in microseconds since
    the epoch; `order` is that of rows with equal arrivals and deadlines.
    """
    is_good = F.col(REASON).isNull()
    partitions = Window.partitionBy("host", "request_id", reject_hash())
    in_order = partitions.orderBy(_ARRIVED, _DEADLINE, *order)
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    overlaps = is_good & F.coalesce(F.col(_ARRIVED) <= F.max(_DEADLINE).over(earlier), F.lit(False))
    is_next = F.coalesce(F.lead(_OVERLAPS).over(in_order), F.lit(False))
    return (
        table.withColumn(_ARRIVED, arrived_us)
        .withColumn(_DEADLINE, deadline_us)
        .withColumn(_OVERLAPS, overlaps)
        .withColumn(IS_FIRST, is_good & (F.row_number().over(in_order) == 1))
        .withColumn(_IN_CHAIN, F.col(_OVERLAPS) | is_next)
    )


def flag_repeated(chains: DataFrame, reason: str = REPEATED) -> DataFrame:
    """Set `REASON` of repeated requests.

    Only rows that share an id while it is reserved pass through Python; usually they are few. They
    are decided one after the other, because a repeated request reserves nothing.
    """
    schema = T.StructType([field for field in chains.schema if field.name not in _HELPERS])

    def decide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # The rows of an id follow each other in order, maybe over several batches.
        last_key, until_us = None, 0
        for batch in batches:
            columns = [
                batch.column(name).to_pylist()
                for name in ("host", "request_id", _ARRIVED, _DEADLINE)
            ]
            repeated = []
            for host, request_id, arrived, deadline in zip(*columns, strict=True):
                is_repeated = (host, request_id) == last_key and arrived <= until_us
                if not is_repeated:
                    last_key, until_us = (host, request_id), deadline
                repeated.append(is_repeated)
            table = batch.select(schema.names)
            at = schema.names.index(REASON)
            reasons = pc.if_else(pa.array(repeated, pa.bool_()), reason, batch.column(REASON))
            yield table.set_column(
                at, table.schema.field(at), reasons.cast(table.schema.field(at).type)
            )

    in_chain = F.col(_IN_CHAIN)
    decided = (
        chains.where(in_chain)
        .select(*to_micros(chains.schema))
        .mapInArrow(decide, micros_schema(schema))
    )
    others = chains.where(~in_chain).select(*schema.names)
    return others.unionByName(from_micros(decided, schema))
