"""Decide about the requests of a mapped table that depend on each other, in columns.

`mapped_columns` maps one batch after the other. What depends on other requests comes after that:
which are repeated, and the events that their ends are; `request_numbers` numbers them. The columns
are those of `trace_columns`, and `ended_at`: when a request was answered, or null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._rows.column_values import bools
from purgatory_spark._rows.repeats import first_of_ids, repeated_in_table, tie_numbers
from purgatory_spark._spark.arrays import Bools, Floats, Ints, Words, one_chunk
from purgatory_spark._spark.hashes import hash_strings

#: What orders a request without an end before others.
_NO_END_US = -(2**62)


def repeated_requests(rows: pa.Table) -> Bools:
    """Return which requests are repeated, by the rule of `repeats`."""
    if "watch_keys" not in rows.schema.names:
        no_keys = pa.array(np.zeros(rows.num_rows + 1), pa.int32())
        no_texts = pa.array([], pa.string())
        rows = rows.append_column("watch_keys", pa.ListArray.from_arrays(no_keys, no_texts))
    arrived_us: Ints = rows.column("arrived_at").to_numpy()
    deadline_us = arrived_us + rows.column("timeout_ms").to_numpy().astype(np.int64) * 1000
    ended_us = _ended_us(rows, _NO_END_US)

    def ties_of(at: Ints) -> Words:
        # Those that are equal as requests are in order of their ends, and of their rows.
        ranks = np.empty(len(at), dtype=np.uint64)
        in_order = np.lexsort((at, ended_us[at], tie_numbers(rows.take(pa.array(at)))))
        ranks[in_order] = np.arange(len(at), dtype=np.uint64)
        return ranks

    hosts, ids = rows.column("host"), rows.column("request_id")
    return repeated_in_table(hosts, ids, arrived_us, deadline_us, ties_of)


def host_hashes(rows: pa.RecordBatch) -> Words:
    """Return a hash of each row's host, which is a dictionary."""
    hosts = rows.column("host")
    names = hosts.dictionary
    hashes = hash_strings(names, np.zeros(len(names), dtype=np.uint64))
    of_row: Words = hashes[hosts.indices.to_numpy()]
    return of_row


def keys_of_reused_ids(rows: pa.Table) -> pa.StringArray:
    """Return a key for each request whose id is not a key of its own; null for others.

    An answer that comes after the deadline must not complete the next request of that id, so all
    requests of an id but the first have other keys. These begin with a blank, as no other key does.
    """
    ids, arrived = one_chunk(rows.column("request_id")), rows.column("arrived_at")
    is_reused = bools(pc.starts_with(ids, " ")) | ~first_of_ids(
        rows.column("host"), rows.column("request_id"), arrived.to_numpy()
    )
    at = np.flatnonzero(is_reused)
    if not len(at):
        return pa.nulls(len(ids), pa.string())
    keys = pc.binary_join_element_wise("", one_chunk(arrived).cast(pa.string()), ids, " ")
    return pc.if_else(pa.array(is_reused), keys, None)


def own_answers_us(rows: pa.Table, never_us: int) -> Ints:
    """Return when requests are satisfied of which each waits for its own answer, `ended_at`.

    That is one event of amount 1 on a key of no other request. `never_us`: the time of what never
    happens.
    """
    satisfied = _ended_us(rows, never_us)
    threshold: Floats = rows.column("threshold").to_numpy()
    if (threshold > 1).any():
        satisfied = np.where(threshold > 1, never_us, satisfied)
    if (threshold <= 0).any():
        satisfied = np.where(threshold <= 0, rows.column("arrived_at").to_numpy(), satisfied)
    return satisfied


def as_keys(ids: pa.ChunkedArray | pa.Array) -> pa.ListArray:
    """Return lists of one key each."""
    keys = one_chunk(ids)
    return pa.ListArray.from_arrays(pa.array(np.arange(len(keys) + 1), pa.int32()), keys)


def ends(rows: pa.Table) -> pa.Table:
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


def _ended_us(rows: pa.Table, otherwise: int) -> Ints:
    ended: Ints = pc.fill_null(rows.column("ended_at"), otherwise).to_numpy()
    return ended
