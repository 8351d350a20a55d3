"""Number the requests of each host in order of arrival, where they have no ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._rows.column_values import bools
from purgatory_spark._rows.trace_columns import PASSED
from purgatory_spark._spark.arrays import Bools, Ints, one_chunk

#: The order of the requests of a host. Those that are equal in all of these columns are equal
#: altogether.
NUMBERED_BY = (
    "arrived_at",
    "ended_at",
    "timeout_ms",
    "watch_keys",
    *[column.name for column in PASSED],
    "aggregate",
    "threshold",
    "quantifier",
)
ID_DIGITS = 12
#: Before every time.
_NULL = -(2**63)
#: What stands for a zero byte in a key, and what is between keys. Joined keys have the order of
#: their lists.
_ZERO, _NEXT_KEY = "\0\1", "\0\0"


def numbered_ids(requests: pa.Table) -> pa.StringArray:
    """Return the numbers of requests as ids."""
    return pc.utf8_lpad(pa.array(numbers_in_order(requests)).cast(pa.string()), ID_DIGITS, "0")


def numbers_in_order(requests: pa.Table) -> Ints:
    """Return the number of each request among those of its host, from 1, in `NUMBERED_BY`.

    `requests`: all of some hosts, in columns of the schema and `ended_at`, of which those that are
    the same in all requests may lack. No watch key is null.
    """
    hosts = _in_order(one_chunk(requests.column("host")))
    order, is_start = _order_of_arrival(hosts, one_chunk(requests.column("arrived_at")).to_numpy())
    for name in NUMBERED_BY[1:]:
        # Only those that are equal so far are compared by further columns.
        equal = np.flatnonzero(~(is_start & np.append(is_start[1:], True)))
        if not len(equal):
            break
        if name in requests.schema.names:
            values = _in_order(one_chunk(requests.column(name)).take(pa.array(order[equal])))
            inner = np.lexsort((values, np.cumsum(is_start)[equal]))
            order[equal], values = order[equal[inner]], values[inner]
            is_start[equal[1:]] |= values[1:] != values[:-1]
    in_order = hosts[order]
    first = np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1])[: len(order)])
    numbers = np.empty(len(order), dtype=np.int64)
    before = np.repeat(first, np.diff(np.append(first, len(order))))
    numbers[order] = np.arange(1, len(order) + 1) - before
    return numbers


def _order_of_arrival(hosts: Ints, arrived_us: Ints) -> tuple[Ints, Bools]:
    """Return requests in order of hosts and arrivals, and which of them differ from the last."""
    # This sort is fast for requests that are nearly in order, as those of logs are.
    order: Ints = np.argsort(arrived_us, kind="stable")
    of_host = hosts[order]
    # NumPy sorts numbers of 16 bits by counting.
    small = of_host.astype(np.uint16) if hosts.max(initial=0) < 2**16 else of_host
    order = order[np.argsort(small, kind="stable")]
    is_start: Bools = np.ones(len(order), dtype=bool)
    for column in (hosts[order], arrived_us[order]):
        is_start[1:] &= column[1:] == column[:-1]
    is_start[1:] = ~is_start[1:]
    return order, is_start


def _in_order(values: pa.Array) -> Ints:
    """Return numbers in whose order values are, null first."""
    kind = values.type
    if pa.types.is_floating(kind):
        return np.unique(values.to_numpy(), return_inverse=True)[1]
    if pa.types.is_integer(kind):
        whole: Ints = pc.fill_null(values.cast(pa.int64()), _NULL).to_numpy()
        return whole
    if pa.types.is_list(kind):
        keys = pc.replace_substring(values.values, _ZERO[0], _ZERO)
        values = pc.binary_join(pa.ListArray.from_arrays(values.offsets, keys), _NEXT_KEY)
    if not pa.types.is_dictionary(kind):
        values = values.dictionary_encode()
    names = values.dictionary
    ranks: Ints = np.zeros(len(names) + 1, dtype=np.int64)
    ranks[:-1] = pc.rank(names, tiebreaker="dense").to_numpy()
    ranks[:-1][bools(names.is_null())] = 0
    numbers: Ints = ranks[pc.fill_null(values.indices, -1).to_numpy()]
    return numbers
