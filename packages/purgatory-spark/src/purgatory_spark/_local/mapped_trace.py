"""Make the requests and events of a trace from a mapped table, as `importers.columns` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from threading import Lock
from typing import TypeVar

import numpy as np
import pyarrow as pa

from purgatory_spark._local.table_files import NewlineInFieldError, Part, TableFiles
from purgatory_spark._rows.column_checks import MALFORMED
from purgatory_spark._rows.mapped_columns import (
    MappedColumns,
    map_event_columns,
    map_request_columns,
    rejections,
)
from purgatory_spark._rows.mapped_requests import (
    as_keys,
    ends,
    repeated_requests,
)
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.repeats import REPEATED
from purgatory_spark._rows.request_numbers import numbered_ids
from purgatory_spark._rows.trace_columns import ARROW_SCHEMAS
from purgatory_spark._spark.arrays import Bools, Words, one_chunk
from purgatory_spark._spark.hashes import hash_strings

_Result = TypeVar("_Result")

#: The types of the columns of a table without rows.
_EMPTY = pa.unify_schemas(
    [*ARROW_SCHEMAS.values(), pa.schema({"ended_at": pa.int64()})], promote_options="default"
)


class MappedTrace:
    """The rows of a table.

    Attributes:
        rows: How many there are.
        rejected: The number of those that are rejected, for each reason.
        requests: The requests in columns of `ARROW_SCHEMAS`, and `ended_at`.
        events: The events; None if each request waits for its own answer alone. Requests have no
            `watch_keys` then, and no `request_id` unless a column has it.
    """

    def __init__(
        self, requests: TableFiles, mapping: TableMapping, events: TableFiles | None = None
    ) -> None:
        names = [*ARROW_SCHEMAS["requests"].names, "ended_at"]
        has_ids = "request_id" in mapping.columns
        if not has_ids:
            names.remove("request_id")
        if not mapping.key_columns:
            names.remove("watch_keys")

        def map_requests(batch: pa.RecordBatch) -> tuple[MappedColumns, Words | None]:
            mapped = map_request_columns(batch, mapping)
            return mapped, _hashes_of_ids(mapped.accepted) if has_ids else None

        found = _in_threads(map_requests, requests)
        self.rejected: Counter[str] = Counter()
        self.rows = 0
        mapped = self._counted(requests, [each for each, _ in found])
        rows = _concatenated(mapped, names)
        if has_ids:
            repeated = _repeated(rows, [hashes for _, hashes in found if hashes is not None])
            if repeated.any():
                self.rejected[REPEATED] += int(repeated.sum())
                rows = rows.filter(pa.array(~repeated))
        self.requests: pa.Table = rows
        self.events: pa.Table | None = None
        if events is None and not mapping.key_columns:
            return
        if not has_ids:
            rows = rows.append_column("request_id", numbered_ids(rows))
        if not mapping.key_columns:
            rows = rows.append_column("watch_keys", as_keys(rows.column("request_id")))
        self.requests = rows
        if events is None:
            self.events = ends(rows)
        else:
            map_events = partial(map_event_columns, mapping=mapping)
            mapped = self._counted(events, _in_threads(map_events, events))
            self.events = _concatenated(mapped, ARROW_SCHEMAS["events"].names)

    def _counted(self, table: TableFiles, mapped: list[MappedColumns]) -> list[MappedColumns]:
        self.rows += sum(each.fields.num_rows for each in mapped) + table.malformed
        self.rejected += Counter({**rejections(mapped), MALFORMED: table.malformed})
        return mapped


def _in_threads(function: Callable[[pa.RecordBatch], _Result], table: TableFiles) -> list[_Result]:
    """Return the results for the batches of a table, in their order."""
    try:
        return _results(function, table.parts())
    except NewlineInFieldError:
        return _results(function, table.parts(whole_files=True))


def _results(function: Callable[[pa.RecordBatch], _Result], parts: Iterator[Part]) -> list[_Result]:
    """Return the results for the batches of parts.

    Arrow and NumPy do most of it without Python's lock. A thread takes a part when it has done one
    before, so that few are in memory.
    """
    numbered: Iterator[tuple[int, Part]] = enumerate(parts)
    taking = Lock()
    results: dict[int, list[_Result]] = {}

    def work(_: int) -> None:
        nonlocal numbered
        try:
            while True:
                with taking:
                    number, part = next(numbered, (-1, None))
                if part is None:
                    return
                results[number] = [function(batch) for batch in part()]
        except BaseException:
            # What the other threads would do is of no use.
            numbered = iter(())
            raise

    with ThreadPoolExecutor(pa.cpu_count()) as threads:
        list(threads.map(work, range(pa.cpu_count())))
    return list(chain.from_iterable(results[number] for number in sorted(results)))


def _concatenated(mapped: Iterable[MappedColumns], names: list[str]) -> pa.Table:
    batches = [each.accepted.select(names) for each in mapped]
    if not batches:
        return pa.table({name: pa.array([], _EMPTY.field(name).type) for name in names})
    return pa.Table.from_batches(batches)


def _hashes_of_ids(requests: pa.RecordBatch) -> Words:
    """Return hashes of hosts and ids."""
    hosts = requests.column("host")
    of_hosts = hash_strings(hosts.dictionary, np.zeros(len(hosts.dictionary), dtype=np.uint64))
    return hash_strings(requests.column("request_id"), of_hosts[hosts.indices.to_numpy()])


def _repeated(rows: pa.Table, hashes_of_ids: list[Words]) -> Bools:
    """Return which requests are repeated."""
    repeated: Bools = np.zeros(rows.num_rows, dtype=bool)
    hashes = np.concatenate([np.zeros(0, dtype=np.uint64), *hashes_of_ids])
    in_order = np.sort(hashes)
    again = in_order[1:][in_order[1:] == in_order[:-1]]
    if not len(again):
        return repeated
    several = np.flatnonzero(np.isin(hashes, again))
    rows = rows.take(pa.array(several))
    rows = pa.table({name: _plain(one_chunk(rows.column(name))) for name in rows.schema.names})
    repeated[several] = repeated_requests(rows)
    return repeated


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
