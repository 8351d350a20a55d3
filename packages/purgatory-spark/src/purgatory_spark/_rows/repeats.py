"""The rule of repeated requests, shared by import, batch, replay and stream.

A request reserves its id, on its host, from its arrival to its deadline, even if it ends earlier. A
request that arrives in that time, or at the deadline, with the same host and id is *repeated*: it
is a reject, and reserves nothing. After the deadline the id may be used again. Requests are taken
in order of arrival, those of one instant in order of their deadlines. Of those that have both in
common, the one with the least `tie_numbers` is the first, which depends on the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from purgatory_spark._rows.packing import hash_watch_keys, passed_columns
from purgatory_spark._spark.arrays import Bools, Ints, Words, one_chunk
from purgatory_spark._spark.hashes import hash_strings
from purgatory_spark._spark.orders import group_hashes

#: The reason of a repeated request.
REPEATED = "repeated request"

#: The end of the reservation of an id that is free: before every time.
NOT_RESERVED_US = -(2**62)


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
    several, ids = _of_equal_ids(hosts, request_ids)
    arrived_us, deadline_us = arrived_us[several], deadline_us[several]
    order = order_of_requests(ids, arrived_us, deadline_us, lambda rows: ties_of(several[rows]))
    repeated[several[order]] = repeated_in_order(ids[order], arrived_us[order], deadline_us[order])
    return repeated


def first_of_ids(hosts: pa.ChunkedArray, request_ids: pa.ChunkedArray, arrived_us: Ints) -> Bools:
    """Return which requests arrived first of those with their host and id; no two at once."""
    is_first: Bools = np.ones(len(request_ids), dtype=bool)
    several, ids = _of_equal_ids(hosts, request_ids)
    order = np.lexsort((arrived_us[several], ids))
    is_first[several[order[1:]]] = ids[order[1:]] != ids[order[:-1]]
    return is_first


def _of_equal_ids(hosts: pa.ChunkedArray, request_ids: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """Return the rows whose ids others have, too, and for each the number of its host and id."""
    # Most ids are used once, and hashing them takes half as long as numbering them.
    texts = _text(request_ids)
    order, is_first = group_hashes(hash_strings(texts, np.zeros(len(texts), dtype=np.uint64)))
    several: Ints = np.sort(order[~(is_first & np.append(is_first[1:], True))])
    at = pa.array(several)
    ids, distinct = _numbered(texts.take(at))
    host_numbers, _ = _numbered(_text(hosts.take(at)))
    return several, host_numbers * distinct + ids


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


def _numbered(names: pa.StringArray) -> tuple[Ints, int]:
    """Return a number for each name, equal for equal ones, and how many there are."""
    encoded = names.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
