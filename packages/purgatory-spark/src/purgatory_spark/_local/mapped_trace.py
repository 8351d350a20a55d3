"""Make the requests and events of a trace from a mapped table, as `importers.columns` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._local.table_files import TableFiles
from purgatory_spark._rows.column_values import bools
from purgatory_spark._rows.mapped_columns import (
    MappedColumns,
    map_event_columns,
    map_request_columns,
    rejections,
)
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.repeats import REPEATED, repeated_in_table, tie_numbers
from purgatory_spark._rows.trace_columns import ARROW_SCHEMAS
from purgatory_spark._spark.arrays import Bools, Ints, Words, one_chunk
from purgatory_spark._spark.hashes import hash_strings

_ID_DIGITS = 12
#: The types of the columns of a table without rows.
_EMPTY = pa.unify_schemas(
    [*ARROW_SCHEMAS.values(), pa.schema({"ended_at": pa.int64()})], promote_options="default"
)


class MappedTrace:
    """Requests and events in `ARROW_SCHEMAS`, and the number of rejected rows for each reason."""

    def __init__(
        self, requests: TableFiles, mapping: TableMapping, events: TableFiles | None = None
    ) -> None:
        mapped = _map(requests, partial(map_request_columns, mapping=mapping))
        self.rejected = Counter(rejections(mapped))
        self.rows = sum(each.fields.num_rows for each in mapped) + requests.malformed
        self.rejected["malformed row"] += requests.malformed
        rows = _joined(mapped, mapping)
        is_first = None
        if "request_id" in mapping.columns:
            repeated, is_first = _repeated(rows)
            self.rejected[REPEATED] += int(repeated.sum())
            rows, is_first = rows.filter(pa.array(~repeated)), is_first[~repeated]
        else:
            rows = rows.append_column("request_id", _numbers_in_order(rows))
        if not mapping.key_columns:
            own_keys = _own_keys(rows, is_first if events is None else None)
            rows = rows.append_column("watch_keys", own_keys)
        self.requests = rows.select(ARROW_SCHEMAS["requests"].names)
        if events is None:
            self.events = _ends(rows)
        else:
            mapped = _map(events, partial(map_event_columns, mapping=mapping))
            self.rejected += Counter(rejections(mapped))
            self.rejected["malformed row"] += events.malformed
            self.rows += sum(each.fields.num_rows for each in mapped) + events.malformed
            self.events = _concatenated(mapped, ARROW_SCHEMAS["events"].names)
        self.rejected = +self.rejected


def _map(
    table: TableFiles, map_batch: Callable[[pa.RecordBatch], MappedColumns]
) -> list[MappedColumns]:
    # Arrow and NumPy do most of it without Python's lock.
    with ThreadPoolExecutor() as threads:
        return list(threads.map(map_batch, table.batches()))


def _joined(mapped: Iterable[MappedColumns], mapping: TableMapping) -> pa.Table:
    names = [*ARROW_SCHEMAS["requests"].names, "ended_at"]
    if "request_id" not in mapping.columns:
        names.remove("request_id")
    if not mapping.key_columns:
        names.remove("watch_keys")
    return _concatenated(mapped, names)


def _concatenated(mapped: Iterable[MappedColumns], names: list[str]) -> pa.Table:
    batches = [each.accepted.select(names) for each in mapped]
    if not batches:
        return pa.table({name: pa.array([], _EMPTY.field(name).type) for name in names})
    return pa.Table.from_batches(batches)


def _repeated(rows: pa.Table) -> tuple[Bools, Bools]:
    """Return which requests are repeated, and which are the first ones of their ids."""
    if _are_distinct(rows):
        none: Bools = np.zeros(rows.num_rows, dtype=bool)
        return none, ~none
    arrived_us: Ints = rows.column("arrived_at").to_numpy()
    deadline_us = arrived_us + rows.column("timeout_ms").to_numpy().astype(np.int64) * 1000
    ended: Ints = pc.fill_null(rows.column("ended_at"), -(2**62)).to_numpy()

    def ties_of(at: Ints) -> Words:
        # Those that are equal as requests are in order of their ends, and of their rows.
        taken = rows.take(pa.array(at))
        tied = pa.table({n: _plain(one_chunk(taken.column(n))) for n in taken.schema.names})
        if "watch_keys" not in tied.schema.names:
            no_keys = pa.array([[]] * len(at), pa.list_(pa.string()))
            tied = tied.append_column("watch_keys", no_keys)
        ranks = np.empty(len(at), dtype=np.uint64)
        in_order = np.lexsort((at, ended[at], tie_numbers(tied)))
        ranks[in_order] = np.arange(len(at), dtype=np.uint64)
        return ranks

    hosts, ids = rows.column("host"), rows.column("request_id")
    plain_hosts = pa.chunked_array([_plain(chunk) for chunk in hosts.chunks], pa.string())
    repeated = repeated_in_table(plain_hosts, ids, arrived_us, deadline_us, ties_of)
    names = one_chunk(pc.binary_join_element_wise(plain_hosts, ids, "\0"))
    number = names.dictionary_encode().indices.to_numpy()
    order = np.lexsort((repeated, arrived_us, number))
    is_first: Bools = np.ones(len(order), dtype=bool)
    is_first[order] = np.append(True, np.diff(number[order]) != 0)[: len(order)]
    return repeated, is_first


def _are_distinct(rows: pa.Table) -> bool:
    """Return whether all requests have ids of their own, by hashes of them."""
    ids = rows.column("request_id")
    hashes = [hash_strings(chunk, np.zeros(len(chunk), dtype=np.uint64)) for chunk in ids.chunks]
    in_order = np.sort(np.concatenate([np.zeros(0, dtype=np.uint64), *hashes]))
    return not bool((in_order[1:] == in_order[:-1]).any())


def _numbers_in_order(rows: pa.Table) -> pa.Array:
    """Return ids, the numbers of the requests of each host in order of arrival."""
    hosts = one_chunk(rows.column("host")).dictionary_encode()
    host: Ints = hosts.indices.to_numpy().astype(np.int64)
    arrived_us: Ints = rows.column("arrived_at").to_numpy()
    ended: Ints = pc.fill_null(rows.column("ended_at"), -(2**62)).to_numpy()
    order = np.lexsort((ended, arrived_us, host))
    in_order = host[order]
    is_start = np.append(True, np.diff(in_order) != 0)[: len(order)]
    start = np.maximum.accumulate(np.where(is_start, np.arange(len(order)), 0))
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order)) - start + 1
    return pc.utf8_lpad(pa.array(number).cast(pa.string()), _ID_DIGITS, "0")


def _own_keys(rows: pa.Table, is_first: Bools | None) -> pa.Array:
    """Return the watch keys of requests that wait for their own answer (`columns.map_rows`).

    `is_first`: which ones are the first of their ids; None if answers are of an id.
    """
    keys = one_chunk(rows.column("request_id"))
    is_plain = None if is_first is None else is_first & ~bools(pc.starts_with(keys, " "))
    if is_plain is not None and not is_plain.all():
        arrived = one_chunk(rows.column("arrived_at")).cast(pa.string())
        reused = pc.binary_join_element_wise("", arrived, keys, " ")
        keys = pc.if_else(pa.array(is_plain), keys, reused)
    offsets = pa.array(np.arange(len(keys) + 1), pa.int32())
    return pa.ListArray.from_arrays(offsets, keys)


def _ends(rows: pa.Table) -> pa.Table:
    """Return the ends of requests as events on each of their keys, once for a key."""
    ended = rows.filter(rows.column("ended_at").is_valid())
    keys = one_chunk(ended.column("watch_keys"))
    of_row: Ints = pc.list_parent_indices(keys).to_numpy()
    flat = keys.flatten()
    if len(flat) > ended.num_rows:
        encoded = flat.dictionary_encode()
        pairs = of_row * len(encoded.dictionary) + encoded.indices.to_numpy()
        _, first = np.unique(pairs, return_index=True)
        flat, of_row = flat.take(pa.array(first)), of_row[first]
    at = pa.array(of_row)
    columns = {
        "host": one_chunk(ended.column("host")).take(at),
        "key": flat,
        "occurred_at": one_chunk(ended.column("ended_at")).take(at),
        "amount": pa.repeat(1.0, len(flat)),
    }
    return pa.table(columns)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
